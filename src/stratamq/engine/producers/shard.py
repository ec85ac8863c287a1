"""The producers of one shard. The shard reads them out of its log when it opens, updates them with
each commit, and saves them now and then so that the next opening has little to read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from stratamq.engine.producers.snapshot import decode, encode, superfluous
from stratamq.engine.producers.table import NO_LIMIT, Draft, ProducerTable
from stratamq.log.contract import ShardStore
from stratamq.model.errors import CorruptRecord, StorageError
from stratamq.model.types import NO_TIMESTAMP, Offset, TimestampMs
from stratamq.wire.kafka.records import BatchSpan, read_header, walk

logger = logging.getLogger(__name__)

PRODUCERS_MAX = 100_000
PRODUCERS_MIN = 16
"""A shard remembers so many, whatever others do."""

SNAPSHOT_BYTES = 16 << 20
SNAPSHOT_BATCHES = 10_000
"""Stored since the last snapshot, of either: time for the next. That is what the next opening has
to read after a crash, some hundredths of a second."""

READ_BYTES = 4 << 20
PRODUCER_ID_AT = 43
"""Where a batch's header has the producer id; its sign bit is set in a batch without one."""


class ProducerLimit:
    """How many producers all shards of an engine remember, at about half a kilobyte each, and how
    many aborted transactions each of them. The writers of its shards count at the same time."""

    def __init__(self, producers_max: int = PRODUCERS_MAX, aborted_max: int = NO_LIMIT) -> None:
        self._max, self._count = producers_max, 0
        self.aborted_max = aborted_max
        self._lock = threading.Lock()

    def change(self, by: int) -> int:
        """How many are too many now."""
        with self._lock:
            self._count += by
            return max(self._count - self._max, 0)


class ShardProducers:
    """Belongs to the shard's writer, except that others may look at `table`."""

    __slots__ = (
        *("_counted", "_derived", "_limit", "_snapshot_bytes"),
        *("table", "unsaved_batches", "unsaved_bytes"),
    )

    def __init__(self) -> None:
        self.table = ProducerTable()
        self._derived = False
        self.unsaved_bytes = self.unsaved_batches = self._snapshot_bytes = 0
        """Stored since the last snapshot: the writer counts them with each commit."""
        self._limit, self._counted = ProducerLimit(), 0

    # -- the limit of all shards ---------------------------------------------------------------

    def count_in(self, limit: ProducerLimit) -> None:
        """From now on; until then a shard has a limit of its own."""
        self._limit.change(-self._counted)
        self._limit, self._counted = limit, 0
        self._count()

    def _count(self) -> None:
        """The shard that brings one too many forgets those it heard of longest ago. Their next
        batches count as their first."""
        before, self._counted = self._counted, len(self.table)
        too_many = self._limit.change(self._counted - before)
        if too_many and self._counted > PRODUCERS_MIN:
            too_many = max(too_many, self._counted // 16)  # not one after the other
            self.table.shrink(max(self._counted - too_many, PRODUCERS_MIN))
            before, self._counted = self._counted, len(self.table)
            self._limit.change(self._counted - before)

    def draft(self, now_ms: TimestampMs) -> Draft:
        return Draft(self.table, now_ms, self._limit.aborted_max)

    # -- following the log ---------------------------------------------------------------------

    def derive(self, store: ShardStore, committed: Offset) -> None:
        """What the log says, from the newest snapshot on that belongs to it. One below what is kept
        here knows nothing of what was behind it, so it would take the next batch for a gap. What
        object storage has is never read for this: where there is no snapshot, what was known before
        goes on being known."""
        forget_above(store, store.end_offset)
        self.unsaved_bytes = self.unsaved_batches = 0
        end = store.end_offset
        table, offset = _newest_snapshot(store, end) or self._without_snapshot(store)
        for data, spans in _read(store, offset, end):
            _replay(table, data, spans, committed)
            self.unsaved_bytes += len(data)
            self.unsaved_batches += len(spans)
        table.transactions.start_at(store.start_offset)
        self.table, self._derived = table, True
        self._count()

    def _without_snapshot(self, store: ShardStore) -> tuple[ProducerTable, Offset]:
        here = store.local_start
        if store.start_offset == here:
            return ProducerTable() if self._derived else self.table, here
        if not self._derived:
            logger.warning(
                "no snapshot tells of producers below offset %d, which is on object storage: "
                "transactions that were aborted there may be read",
                here,
            )
        return self.table.below(here), here

    def changed(self) -> None:
        """A draft became part of the table."""
        if len(self.table) != self._counted:
            self._count()

    def is_due(self) -> bool:
        """Whether it is time for `save`, which takes a while and is not for the event loop. A large
        table is saved less often: what it costs stays a small part of what is stored."""
        size, batches = self.unsaved_bytes, self.unsaved_batches
        if size < SNAPSHOT_BYTES and batches < SNAPSHOT_BATCHES:
            return False
        return size >= 8 * self._snapshot_bytes or batches >= 2 * len(self.table)

    def expire(self, store: ShardStore, now_ms: TimestampMs, expiration_ms: int) -> None:
        self.table.expire(now_ms, expiration_ms)
        self._count()
        self.table.transactions.start_at(store.start_offset)

    # -- snapshots -----------------------------------------------------------------------------

    def save(self, store: ShardStore) -> None:
        """For the next opening. Whatever goes wrong here costs time then, and nothing else; unless
        some of the log is on object storage, where it cannot be read again. Then it is durable."""
        if not self.unsaved_batches:
            return
        end, snapshots = store.end_offset, store.snapshots
        data = encode(self.table, end)
        self.unsaved_bytes, self.unsaved_batches, self._snapshot_bytes = 0, 0, len(data)
        try:
            offloaded, lasts = store.local_start > store.start_offset, store.lasting_end == end
            if durable := offloaded and lasts:
                store.sync()  # a power cut must not leave the log shorter than what is known of it
            snapshots.save(end, data, durable=durable)
            _thin_out(store)
        except (OSError, StorageError) as error:
            logger.warning("producers were not saved at offset %d: %s", end, error)

    def before_trim(self, store: ShardStore, start: Offset) -> None:
        """What is trimmed cannot be read at the next opening. So it is saved before."""
        offsets = store.snapshots.offsets()
        if not offsets or offsets[-1] < start:
            self.save(store)

    def before_offload(self, store: ShardStore, committed: Offset) -> None:
        """The same, and it must be there after a power cut as well: StorageError or OSError where
        it cannot be saved."""
        store.sync()
        data = self.lasting(store, committed)()
        store.snapshots.save(store.lasting_end, data, durable=True)

    # -- where a part of the log goes with the process -----------------------------------------

    def lasting(self, store: ShardStore, committed: Offset) -> Callable[[], bytes]:
        """A snapshot of the other part, at its end. Making it is left to any thread, as long as
        that part stays what it is."""
        end = store.lasting_end
        if end == store.end_offset or self.table.is_empty():
            return partial(encode, self.table.copy(), end)

        def read_on() -> bytes:
            table, offset = _newest_snapshot(store, end) or self._without_snapshot(store)
            for data, spans in _read(store, offset, end):
                _replay(table, data, spans, committed)
            return encode(table, end)

        return read_on

    def save_lasting(self, store: ShardStore, data: bytes) -> None:
        """As `save`: after a crash this is the newest there is."""
        store.snapshots.save(store.lasting_end, data)
        _thin_out(store)


def _read(
    store: ShardStore, offset: Offset, end: Offset
) -> Iterator[tuple[bytes, Sequence[BatchSpan]]]:
    """Batches up to `end`, some at a time. What is damaged is left out."""
    while offset < end:
        try:
            data = store.read(offset, READ_BYTES, end)
        except CorruptRecord as damage:
            offset = Offset(max(damage.next_offset, offset + 1))
            continue
        if not data:
            return
        spans = walk(data)
        yield data, spans
        offset = Offset(spans[-1].last_offset + 1)


def _replay(
    table: ProducerTable, data: bytes, spans: Sequence[BatchSpan], committed: Offset
) -> None:
    """Looks at headers only, except of marks."""
    draft = Draft(table, NO_TIMESTAMP)
    for position, size, *_ in spans:
        if data[position + PRODUCER_ID_AT] < 0x80:
            batch = memoryview(data)[position : position + size]
            draft.add(read_header(batch), batch)
    draft.commit(committed)


def _thin_out(store: ShardStore) -> None:
    """The newest of what outlives the process stays: after a crash it is all that is left."""
    snapshots = store.snapshots
    offsets = snapshots.offsets()
    lasting = max((one for one in offsets if one <= store.lasting_end), default=None)
    for offset in superfluous(offsets, store.end_offset):
        if offset != lasting:
            snapshots.forget(offset)


def _newest_snapshot(store: ShardStore, end: Offset) -> tuple[ProducerTable, Offset] | None:
    """A table and how much of the log up to `end` it knows, where a snapshot is of use."""
    snapshots = store.snapshots
    for offset in reversed(snapshots.offsets()):
        if offset > end:
            continue
        if offset < store.local_start:
            break
        table = decode(snapshots.load(offset), offset)
        if table is not None:
            return table, offset
    return None


def forget_above(store: ShardStore, end: Offset) -> None:
    """Snapshots of a log that is no more, or is about to be cut."""
    for offset in store.snapshots.offsets():
        if offset > end:
            store.snapshots.forget(offset)
