"""`spark.readStream.format("stratamq")`: topics as they grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

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
from stratamq.spark.columns import arrow_schema
from stratamq.spark.failures import DataLoss, plainly, recreated, warn_once
from stratamq.spark.filters import conditions_of, is_wanted
from stratamq.spark.lookups import (
    SeenTopics,
    ask_steady,
    bounds,
    densities,
    must_be,
    of_these,
    resolve,
    within,
)
from stratamq.spark.options import read_options, trigger_limits
from stratamq.spark.planning import OffsetRange, ReadTask, admitted, is_too_little, split
from stratamq.spark.positions import StoredOffsets, StreamOffsets
from stratamq.spark.reading import read, reading_of, shared_client
from stratamq.wire.kafka.protocol import NO_UUID

if TYPE_CHECKING:
    import pyarrow as pa


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream whose options are wrong. Spark 4.3 loses an error that is raised before it has a
    reader, and reports a variable of its own instead; so there is a reader, which raises it."""

    def __init__(self, why: StrataError) -> None:
        self._why = why

    @plainly
    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise self._why

    getDefaultReadLimit = initialOffset = latestOffset = partitions = _refuse
    prepareForTriggerAvailableNow = read = reportLatestOffset = _refuse


T = TypeVar("T")
Offsets = Mapping[TopicPartition, int]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a Python worker next to the driver for as long as the query runs.

    Offsets are where the next micro-batch begins, with the ids of their topics: a topic that is
    deleted and made again ends the query, or is read from its beginning (`failOnDataLoss=false`).
    Partitions that are added while the query runs are read from their beginning.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = read_options(options, streaming=True)
        self._limits = trigger_limits(options)
        self._schema = arrow_schema(schema)
        self._conditions = conditions_of(self._options)
        self._losses = self._options.losses
        self._target: StreamOffsets | None = None
        self._moved_at = time.monotonic()

    # -- on the driver -------------------------------------------------------------------------

    @plainly
    def initialOffset(self) -> StoredOffsets:
        return self._ask(self._begin).stored()

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
    def latestOffset(self, start: StoredOffsets, limit: ReadLimit) -> StoredOffsets:
        begin, everything = StreamOffsets.parse(start), isinstance(limit, ReadAllAvailable)
        if self._target is None:
            found = self._ask(lambda client, seen: self._next(client, seen, begin, everything))
        else:
            client = shared_client(self._options.client)
            found = client.call(self._admitted(client.asyncio, begin, self._target, everything))
        end = found.stored()
        if end != start:
            self._moved_at = time.monotonic()
        return end

    @plainly
    def reportLatestOffset(self) -> StoredOffsets:
        """Return where the topics end now, also if the query is to end before that."""
        return self._ask(self._latest).stored()

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ask(self._latest)

    @plainly
    def partitions(self, start: StoredOffsets, end: StoredOffsets) -> Sequence[InputPartition]:
        begin, stop = StreamOffsets.parse(start), StreamOffsets.parse(end)
        ranges = self._ask(lambda client, seen: self._ranges(client, seen, begin, stop))
        options = self._options
        return [
            ReadTask(one)
            for one in split(ranges, options.partition_bytes_max, options.partitions_min)
        ]

    def _ask(self, ask: Callable[[Client, SeenTopics], Coroutine[Any, Any, T]]) -> T:
        """Of the topics as they are now; all of the answer is about the same ones."""
        client = shared_client(self._options.client)

        async def wanted(seen: SeenTopics) -> T:
            places = tuple(place for place in seen.places if is_wanted(place, self._conditions))
            return await ask(client.asyncio, seen._replace(places=places))

        return client.call(ask_steady(client.asyncio, self._options.topics, wanted))

    async def _begin(self, client: Client, seen: SeenTopics) -> StreamOffsets:
        starting, committed = self._options.starting, self._options.committed
        starting = of_these(starting, seen, self._losses)
        begins = await resolve(client, seen.places, starting, committed)
        starts, ends = await bounds(client, seen.places, committed)
        found = {}
        for place in seen.places:
            strict = must_be(starting, place, self._options)
            found[place] = within(begins[place], place, starts[place], ends[place], strict=strict)
        return StreamOffsets(found, seen.ids)

    async def _latest(self, client: Client, seen: SeenTopics) -> StreamOffsets:
        asked = dict.fromkeys(seen.places, LATEST)
        ends = await client.list_offsets(asked, committed=self._options.committed)
        return StreamOffsets(ends, seen.ids)

    async def _next(
        self, client: Client, seen: SeenTopics, start: StreamOffsets, everything: bool
    ) -> StreamOffsets:
        end = await self._latest(client, seen)
        self._check_none_is_gone(self._continued(start, end), end)
        return await self._admitted(client, start, end, everything)

    async def _admitted(
        self, client: Client, start: StreamOffsets, end: StreamOffsets, everything: bool
    ) -> StreamOffsets:
        """Cut start..end to what one micro-batch may have."""
        ends = end.offsets
        starts = await self._with_new_places(client, self._continued(start, end), ends)
        if everything:
            return end
        waited_ms = (time.monotonic() - self._moved_at) * 1000
        if self._target is None and is_too_little(starts, ends, self._limits, waited_ms):
            return start
        sizes = dict.fromkeys(ends, 0.0)
        if self._limits.bytes_max is not None:
            sizes = await self._sizes(client, starts, ends, offsets_min=1)
        return StreamOffsets({**ends, **admitted(starts, ends, self._limits, sizes)}, end.ids)

    def _continued(self, start: StreamOffsets, end: StreamOffsets) -> StreamOffsets:
        """`start` without the offsets of topics that were deleted and made again since: those are
        read from their beginning, as new ones are."""
        others = recreated(start.ids, end.ids)
        for error in others:
            self._losses.accept(error, "reads the new one from its beginning")
        for name in {place.topic for place in start.offsets} - start.ids.keys():
            if name in end.ids:
                warn_once(
                    f"topic {name!r}: the checkpoint is of an earlier version and has no id of it; "
                    f"its offsets are taken for those of the topic there is now, "
                    f"{end.ids[name].hex()}"
                )
        return start.without([error.name for error in others])

    async def _ranges(
        self, client: Client, seen: SeenTopics, start: StreamOffsets, end: StreamOffsets
    ) -> list[OffsetRange]:
        others = recreated(end.ids, seen.ids)
        for error in others:
            self._losses.accept(error, "reads the new one from its beginning, next time")
        end = end.without([error.name for error in others])
        starts = await self._with_new_places(client, self._continued(start, end), end.offsets)
        firsts = await client.list_offsets(dict.fromkeys(end.offsets, EARLIEST))
        for place, stop in end.offsets.items():
            first = firsts[place]
            starts[place] = within(
                starts[place], place, first, max(stop, first), strict=self._losses.fatal
            )
        sizes = await self._sizes(client, starts, end.offsets)
        return [
            OffsetRange(
                place=place,
                start=starts[place],
                stop=stop,
                offset_bytes=sizes.get(place, 0.0),
                topic_id=seen.ids.get(place.topic, NO_UUID),
            )
            for place, stop in end.offsets.items()
        ]

    async def _sizes(
        self, client: Client, starts: Offsets, ends: Offsets, **more: int
    ) -> dict[TopicPartition, float]:
        full = {place: starts[place] for place, end in ends.items() if starts[place] < end}
        counts = {place: ends[place] - start for place, start in full.items()}
        return {**dict.fromkeys(ends, 0.0), **await densities(client, full, counts, **more)}

    async def _with_new_places(
        self, client: Client, start: StreamOffsets, ends: Offsets
    ) -> dict[TopicPartition, int]:
        new = [place for place in ends if place not in start.offsets]
        firsts = await client.list_offsets(dict.fromkeys(new, EARLIEST))
        return {place: start.offsets.get(place, firsts.get(place, 0)) for place in ends}

    def _check_none_is_gone(self, start: StreamOffsets, end: StreamOffsets) -> None:
        if not self._losses.fatal:
            return
        for place, offset in start.offsets.items():
            if place not in end.offsets:
                raise StrataError(
                    f"{place} is gone, and the query was at offset {offset} of it "
                    "(failOnDataLoss=false goes on without)"
                )
            if end.offsets[place] < offset:
                raise DataLoss(place, offset, 0, end.offsets[place])

    # -- on executors --------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(reading_of(self._options, self._schema, self._conditions), partition.value)
