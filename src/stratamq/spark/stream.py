"""`spark.readStream.format("stratamq")`: topics as they grow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from stratamq.client import EARLIEST, LATEST, Client, TopicPartition
from stratamq.model.errors import StrataError
from stratamq.spark.admission import admitted, is_too_little
from stratamq.spark.columns import arrow_schema
from stratamq.spark.failing import plainly
from stratamq.spark.filters import conditions_of, is_wanted
from stratamq.spark.looking import (
    DataLoss,
    Offsets,
    bounds,
    densities,
    must_be,
    places_of,
    resolve,
    within,
)
from stratamq.spark.options import read_options, trigger_limits
from stratamq.spark.planning import OffsetRange, Task, split
from stratamq.spark.progress import Told, offsets_of, told
from stratamq.spark.reading import read, reading_of, shared_client

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a Python worker beside the driver for as long as the query runs.

    Offsets are where the next micro-batch begins. Partitions that are added while the query runs
    are read from their beginning.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = read_options(options, streaming=True)
        self._limits = trigger_limits(options)
        self._schema = arrow_schema(schema)
        self._conditions = conditions_of(self._options)
        self._target: Offsets | None = None
        self._moved_at = time.monotonic()

    # -- on the driver -------------------------------------------------------------------------

    @plainly
    def initialOffset(self) -> Told:
        return told(self._call(self._begin))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark knows one limit, we may have several; what it shows is the first of them."""
        limits = self._limits
        if limits.offsets_max is not None:
            return ReadMaxRows(limits.offsets_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        if limits.offsets_min is not None:
            return ReadMinRows(limits.offsets_min)
        return ReadAllAvailable()

    @plainly
    def latestOffset(self, start: Told, limit: ReadLimit) -> Told:
        everything = isinstance(limit, ReadAllAvailable)
        end = told(self._call(self._next, offsets_of(start), everything))
        if end != start:
            self._moved_at = time.monotonic()
        return end

    @plainly
    def reportLatestOffset(self) -> Told:
        """Where the topics end now, also if the query is to end before that."""
        return told(self._call(self._latest))

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._call(self._latest)

    @plainly
    def partitions(self, start: Told, end: Told) -> Sequence[InputPartition]:
        ranges = self._call(self._ranges, offsets_of(start), offsets_of(end))
        options = self._options
        return [
            Task(one) for one in split(ranges, options.partition_bytes_max, options.partitions_min)
        ]

    def _call(self, work: Any, *args: Any) -> Any:
        client = shared_client(self._options.client)
        return client.call(work(client.asyncio, *args))

    async def _begin(self, client: Client) -> Offsets:
        places = await self._places(client)
        begins = await resolve(client, places, self._options.starting, self._options.committed)
        starts, ends = await bounds(client, places, self._options.committed)
        found = {}
        for place in places:
            strict = must_be(self._options.starting, place, self._options)
            found[place] = within(begins[place], place, starts[place], ends[place], strict=strict)
        return found

    async def _places(self, client: Client) -> list[TopicPartition]:
        found = await places_of(client, self._options.topics)
        return [place for place in found if is_wanted(place, self._conditions)]

    async def _ends(self, client: Client) -> Offsets:
        return await self._latest(client) if self._target is None else self._target

    async def _latest(self, client: Client) -> Offsets:
        asked = dict.fromkeys(await self._places(client), LATEST)
        return await client.list_offsets(asked, committed=self._options.committed)

    async def _next(self, client: Client, start: Offsets, everything: bool) -> Offsets:
        ends = await self._ends(client)
        self._check_none_is_gone(start, ends)
        starts = await self._with_new_places(client, start, ends)
        if everything:
            return ends
        waited_ms = (time.monotonic() - self._moved_at) * 1000
        if self._target is None and is_too_little(starts, ends, self._limits, waited_ms):
            return start
        sizes = dict.fromkeys(ends, 0.0)
        if self._limits.bytes_max is not None:
            sizes = await self._sizes(client, starts, ends, offsets_min=1)
        return {**ends, **admitted(starts, ends, self._limits, sizes)}

    async def _ranges(self, client: Client, start: Offsets, end: Offsets) -> list[OffsetRange]:
        starts = await self._with_new_places(client, start, end)
        firsts = await client.list_offsets(dict.fromkeys(end, EARLIEST))
        strict = self._options.fail_on_data_loss
        for place, stop in end.items():
            first = firsts[place]
            starts[place] = within(starts[place], place, first, max(stop, first), strict=strict)
        sizes = await self._sizes(client, starts, end)
        return [
            OffsetRange(
                place=place, start=starts[place], stop=stop, offset_bytes=sizes.get(place, 0.0)
            )
            for place, stop in end.items()
        ]

    async def _sizes(
        self, client: Client, starts: Offsets, ends: Offsets, **more: int
    ) -> dict[TopicPartition, float]:
        full = {place: starts[place] for place, end in ends.items() if starts[place] < end}
        counts = {place: ends[place] - start for place, start in full.items()}
        return {**dict.fromkeys(ends, 0.0), **await densities(client, full, counts, **more)}

    async def _with_new_places(self, client: Client, start: Offsets, end: Offsets) -> Offsets:
        new = [place for place in end if place not in start]
        firsts = await client.list_offsets(dict.fromkeys(new, EARLIEST))
        return {place: start.get(place, firsts.get(place, 0)) for place in end}

    def _check_none_is_gone(self, start: Offsets, ends: Offsets) -> None:
        for place, offset in start.items():
            if not self._options.fail_on_data_loss:
                return
            if place not in ends and self._target is None:
                raise StrataError(
                    f"{place} is gone, and the query was at offset {offset} of it "
                    "(failOnDataLoss=false goes on without)"
                )
            if ends.get(place, offset) < offset and self._target is None:
                raise DataLoss(place, offset, 0, ends[place])

    # -- on executors --------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(reading_of(self._options, self._schema, self._conditions), partition.value)
