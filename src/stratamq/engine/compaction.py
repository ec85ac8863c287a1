"""Which records a compaction takes out. Pure: the engine rewrites segments by the answer.

Taken out of sealed, committed segments:

- records that were deleted, by key or by offset;
- records whose time to live is over;
- records of transactions that were aborted, wherever records are looked at;
- where `cleanup.policy` has `compact`: records with a newer one of the same key in those segments,
  and records with a null value (deletion marks) older than `delete.retention.ms`, unless object
  storage may have an older value, which would come back; not from the first segment on that has a
  record younger than `min.compaction.lag.ms`. What was deleted, has expired or was aborted
  supersedes nothing, so a compaction never changes what is found under a key, except that what was
  aborted is found no more.

Kept always: what object storage has or is about to get, control batches, batches that cannot be
decoded, records without a key, everything in the active segment and behind the last stable offset,
and the header of each producer's last batch, which tells its sequence. Segments are to be rewritten
from the oldest on: then no crash between two of them can leave an old value behind whose deletion
mark is gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from hashlib import blake2b
from itertools import takewhile
from typing import NamedTuple

from stratamq.engine.producers.transactions import AbortedIndex
from stratamq.engine.view import CHUNK_BYTES_MAX, View
from stratamq.log.contract import Rewriter, SegmentInfo
from stratamq.model.errors import CorruptRecord, InvalidInput
from stratamq.model.record import Record
from stratamq.model.topic import TopicConfig
from stratamq.model.types import EARLIEST, Offset
from stratamq.wire.kafka.records import BatchHeader, decode_batch, drop_records, read_header
from stratamq.wire.kafka.records.rewrite import empty_batch

DIGEST_BYTES = 16
"""Keys are remembered by a digest that nobody can forge: a collision would delete another's
record."""

PAGE_BITS = 10
NEVER_MS = -(1 << 63)


class OffsetSet:
    """Offsets at about a bit each where they are dense: a segment may hold millions."""

    __slots__ = ("_pages",)

    def __init__(self) -> None:
        self._pages: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._pages)

    def add(self, offset: int) -> None:
        page, bit = offset >> PAGE_BITS, offset & ((1 << PAGE_BITS) - 1)
        self._pages[page] = self._pages.get(page, 0) | 1 << bit

    def add_within(self, segment: SegmentInfo, offsets: Iterable[Offset]) -> None:
        for offset in offsets:
            if segment.base_offset <= offset < segment.end_offset:
                self.add(offset)

    def between(self, first: int, last: int) -> list[int]:
        """Members in first..last, ascending."""
        found: list[int] = []
        for page in range(first >> PAGE_BITS, (last >> PAGE_BITS) + 1):
            bits, base = self._pages.get(page, 0), page << PAGE_BITS
            while bits:
                lowest = bits & -bits
                found.append(base + lowest.bit_length() - 1)
                bits ^= lowest
        return [offset for offset in found if first <= offset <= last]


class Scope(NamedTuple):
    """What a compaction may look at, and what it knows before it looks."""

    view: View
    deleted: Set[Offset]
    aborted: AbortedIndex
    floor: Offset = EARLIEST
    """Below it nothing may change, and there may be older values of any key."""

    def is_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional:
            return False
        found = self.aborted.between(header.base_offset, header.next_offset)
        return any(
            one.producer_id == header.producer_id and one.first_offset <= header.base_offset
            for one in found
        )


class Plan(NamedTuple):
    """What goes from one segment."""

    segment: SegmentInfo
    doomed: OffsetSet


def plan(scope: Scope, config: TopicConfig, now_ms: int, keys_max: int) -> list[Plan]:
    """The segments to rewrite, oldest first. Reads them all where the policy or a TTL asks for
    it."""
    view = scope.view
    sealed = [
        segment
        for segment in view.store.segments()
        if not segment.active
        and view.start < segment.end_offset <= view.end
        and segment.base_offset >= scope.floor
    ]
    forgets = view.start >= scope.floor
    marks_from_ms = now_ms - config.number("delete.retention.ms") if forgets else NEVER_MS
    calm = _calm(sealed, config, now_ms) if config.compacts else []
    newest = _newest_offsets(scope, calm, keys_max)
    plans = []
    for segment in sealed:
        doomed = OffsetSet()
        doomed.add_within(segment, scope.deleted)
        newer = newest if segment in calm else None
        if newer is not None or view.expiry:
            for header, records in _batches(view, segment):
                aborted = scope.is_aborted(header)
                for record in records:
                    if aborted or _is_over(view, record, newer, marks_from_ms):
                        doomed.add(record.offset)
        if doomed:
            plans.append(Plan(segment, doomed))
    return plans


def _calm(sealed: Sequence[SegmentInfo], config: TopicConfig, now_ms: int) -> Sequence[SegmentInfo]:
    """Those before the first that has a record too young to be superseded."""
    lag_ms = config.number("min.compaction.lag.ms")
    if not lag_ms:
        return sealed
    until_ms = now_ms - lag_ms
    return list(takewhile(lambda segment: segment.largest_timestamp <= until_ms, sealed))


def rewriter(
    doomed: OffsetSet, decompressed_max: int, last_batches: Set[Offset] = frozenset()
) -> Rewriter:
    """`last_batches` are known by their last offsets: their headers stay when no record does."""

    def rewrite(header: BatchHeader, data: memoryview) -> bytes | None:
        gone = doomed.between(header.base_offset, header.last_offset)
        if header.is_control or (header.record_count and not gone):
            return bytes(data)
        try:
            left = drop_records(header, data, gone, decompressed_max)
        except InvalidInput:
            return bytes(data)  # nobody can read it now, but an operator may be able to repair it
        if left is not None and read_header(left).record_count:
            return left
        return empty_batch(header) if header.last_offset in last_batches else None

    return rewrite


def _newest_offsets(
    scope: Scope, sealed: Sequence[SegmentInfo], keys_max: int
) -> dict[bytes, Offset]:
    """Where the newest record of each key is. When it is full, further keys are left alone."""
    newest: dict[bytes, Offset] = {}
    for segment in sealed:
        for record in _counting(scope, segment):
            if record.key is not None:
                digest = _digest(record.key)
                if digest in newest or len(newest) < keys_max:
                    newest[digest] = record.offset
    return newest


def _counting(scope: Scope, segment: SegmentInfo) -> Iterator[Record]:
    """Records that supersede others."""
    expiry = scope.view.expiry
    for header, records in _batches(scope.view, segment):
        if not scope.is_aborted(header):
            for record in records:
                if record.offset not in scope.deleted and not (expiry and expiry(record)):
                    yield record


def _is_over(
    view: View, record: Record, newest: dict[bytes, Offset] | None, marks_from_ms: int
) -> bool:
    if view.expiry and view.expiry(record):
        return True
    if newest is None or record.key is None:
        return False
    latest = newest.get(_digest(record.key))
    if latest is None:
        return False
    return record.offset < latest or (record.value is None and record.timestamp < marks_from_ms)


def _batches(view: View, segment: SegmentInfo) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Every batch of the segment whose records can be read. Damage is left to repair."""
    offset = segment.base_offset
    bounded = view._replace(end=segment.end_offset)
    while offset < segment.end_offset:
        try:
            for header, data in bounded.batches(offset, CHUNK_BYTES_MAX):
                offset = header.next_offset
                try:
                    yield header, decode_batch(header, data, view.decompressed_max)
                except InvalidInput:
                    continue
            return
        except CorruptRecord as damage:
            offset = Offset(damage.next_offset)


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_BYTES).digest()
