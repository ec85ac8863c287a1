"""`spark.read.format("stratamq")`: a topic as a table, at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from stratamq.client import Client
from stratamq.model.errors import StrataError
from stratamq.spark.columns import arrow_schema, schema_of
from stratamq.spark.failures import plainly
from stratamq.spark.filters import Condition, condition_of, conditions_of, is_wanted, scope_of
from stratamq.spark.lookups import SeenTopics, ask_steady, cut, densities
from stratamq.spark.options import FORMAT, ReadOptions, read_options
from stratamq.spark.planning import OffsetRange, ReadTask, split
from stratamq.spark.reading import read, reading_of, shared_client
from stratamq.spark.stream import RefusedStream, StreamReader
from stratamq.wire.kafka.protocol import NO_UUID

if TYPE_CHECKING:
    import pyarrow as pa


class StrataMQSource(DataSource):
    """Made by Spark, in a Python worker, for each query."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    @plainly
    def schema(self) -> StructType:
        return schema_of(self.options.get("columns"))

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(dict(self.options), streaming=False)
        kind = FilteringReader if options.push_filters else BatchReader
        return kind(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            return StreamReader(dict(self.options), schema)
        except StrataError as error:
            return RefusedStream(error)

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from stratamq.spark.sink.writers import BatchWriter  # readers do without it

        return BatchWriter(dict(self.options), schema, overwrite)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Complete mode writes the whole result with each epoch, as Spark's Kafka sink does."""
        from stratamq.spark.sink.writers import StreamWriter

        return StreamWriter(dict(self.options), schema)


class BatchReader(DataSourceReader):
    """Where each partition is cut is decided once, when `partitions` is called on the driver."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = arrow_schema(schema)
        self._conditions = conditions_of(options)

    @plainly
    def partitions(self) -> list[InputPartition]:
        client = shared_client(self._options.client)
        ranges = client.call(ranges_of(client.asyncio, self._options, self._conditions))
        options = self._options
        return [
            ReadTask(one)
            for one in split(ranges, options.partition_bytes_max, options.partitions_min)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # what Spark makes of no partitions at all
            return iter(())
        return read(reading_of(self._options, self._schema, self._conditions), partition.value)


class FilteringReader(BatchReader):
    """Takes over from Spark what filters it can.

    Only for who asks for it: Spark 4.3 keeps what was planned for the first query over a data frame
    for the next ones, and would show those only what the first one's filters had left.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        taken = {id(one): condition_of(one) for one in filters}
        self._conditions += tuple(one for one in taken.values() if one is not None)
        return [one for one in filters if taken[id(one)] is None]


async def ranges_of(
    client: Client, options: ReadOptions, conditions: tuple[Condition, ...]
) -> list[OffsetRange]:
    """The cut, narrowed by the conditions."""

    async def ask(topics: SeenTopics) -> list[OffsetRange]:
        places = tuple(place for place in topics.places if is_wanted(place, conditions))
        return await _ranges(client, options, conditions, topics._replace(places=places))

    return await ask_steady(client, options.topics, ask)


async def _ranges(
    client: Client, options: ReadOptions, conditions: tuple[Condition, ...], topics: SeenTopics
) -> list[OffsetRange]:
    places, scope = topics.places, scope_of(conditions)
    cuts = await cut(client, options, topics)
    since = dict.fromkeys(places, 0)
    if scope.since_ms is not None:
        asked = dict.fromkeys(places, scope.since_ms)
        found = await client.list_offsets(asked, committed=options.committed)
        since = {place: cuts[place][1] if found[place] < 0 else found[place] for place in places}
    bounds = {
        place: (max(start, scope.start, since[place]), min(stop, scope.stop))
        for place, (start, stop) in cuts.items()
    }
    starts = {place: start for place, (start, stop) in bounds.items() if start < stop}
    counts = {place: bounds[place][1] - start for place, start in starts.items()}
    dense = await densities(client, starts, counts)
    return [
        OffsetRange(
            place=place,
            start=start,
            stop=bounds[place][1],
            offset_bytes=dense[place],
            topic_id=topics.ids.get(place.topic, NO_UUID),
        )
        for place, start in starts.items()
    ]
