"""A memory shard whose sealed segments go to disk: the old part there, the young part in memory.

    start_offset ......... disk ......... boundary ....... memory ....... end_offset

Sealed memory segments are copied to the disk in the background, oldest first, and leave memory when
they are safe there. What was not sealed is lost with the process; offsets then go on where the disk
ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import chain
from pathlib import Path

from stratamq.engine.memory.segment import MemorySegment
from stratamq.engine.memory.store import MemoryShardStore
from stratamq.log import epochs as epoch_history
from stratamq.log.contract import (
    EpochStart,
    PlacedBatch,
    Rewriter,
    SegmentInfo,
    Step,
    adjoining,
)
from stratamq.log.shard_log import FileShardLog
from stratamq.log.snapshots import Snapshots
from stratamq.model.errors import OffsetOutOfRange
from stratamq.model.types import LeaderEpoch, Offset, TimestampMs

READ_ATTEMPTS_MAX = 100
"""Segments that may move to disk while one read looks for its own."""


class EitherSet(Set[Offset]):
    """Offsets that are in one of two sets."""

    def __init__(self, old: Set[Offset], young: Set[Offset]) -> None:
        self._old, self._young = old, young

    def __contains__(self, offset: object) -> bool:
        return offset in self._young or offset in self._old

    def __iter__(self) -> Iterator[Offset]:
        return iter({*self._old, *self._young})

    def __len__(self) -> int:
        return len(self._old) + len(self._young)

    @classmethod
    def _from_iterable(cls, found: Iterable[Offset]) -> Set[Offset]:  # type: ignore[override]
        """What `&`, `|` and `-` give is a set of its own."""
        return set(found)


class PersistedShardStore:
    """See ShardStore. Appending is done on the event loop; other changes on a thread, while which
    nothing else is done but reading, and never during a `copy`. Appending alone may happen beside
    that, since it touches the newest segment."""

    __slots__ = ("_start", "disk", "memory")

    def __init__(self, disk: FileShardLog, memory: MemoryShardStore) -> None:
        self.disk, self.memory = disk, memory
        self._start = disk.start_offset
        self._tell_epochs()

    def _tell_epochs(self) -> None:
        """Memory knows the epoch it goes on with, in case the disk is emptied."""
        boundary = self.memory.snapshot()[0].base
        self.memory.begin_epochs(epoch_history.cut_start(self.disk.epochs(), boundary))

    # -- moving --------------------------------------------------------------------------------

    def oldest_sealed(self) -> MemorySegment | None:
        """The segment that goes next."""
        first, *others = self.memory.snapshot()
        return first if others else None

    def is_to_be_copied(self, base_offset: Offset) -> bool:
        """Whether the segment there is sealed, and in memory alone."""
        return any(segment.base == base_offset for segment in self.memory.snapshot()[:-1])

    def copy(self, segment: MemorySegment) -> None:
        """Make a sealed segment durable, with its deletion marks, which come first: a crash never
        leaves a deleted record without its mark. May be repeated after a failure."""
        deleted = [mark for mark in self.memory.deleted() if segment.base <= mark < segment.end]
        if deleted:
            self.disk.delete(deleted)
        left = [
            PlacedBatch(header, (data,), self.memory.scan(header, data))
            for header, data in segment.items()
            if header.base_offset >= self.disk.end_offset
        ]
        begun = [one for one in self.memory.epochs() if one.start_offset < segment.end]
        self.disk.note_epochs(begun)
        if left:
            self.disk.append(left, whole=True)
        self.disk.roll(self._behind(segment))
        self.disk.trim(max(self.disk.start_offset, min(self._start, self.disk.end_offset)))

    def _behind(self, segment: MemorySegment) -> Offset:
        """Where the next one begins: what was compacted away in between is not given again."""
        return min(one.base for one in self.memory.snapshot() if one.base > segment.base)

    def release(self, segment: MemorySegment) -> None:
        """The disk has it: readers find it there."""
        self.memory.trim(segment.end)

    def settle(self) -> None:
        """When nothing is left to be moved: what was compacted away at the end is not given
        again."""
        if not self.memory.weight and self.memory.end_offset > self.disk.end_offset:
            self.disk.roll(self.memory.end_offset)

    # -- ends ----------------------------------------------------------------------------------

    @property
    def start_offset(self) -> Offset:
        return self._start

    @property
    def local_start(self) -> Offset:
        return max(self._start, self.disk.local_start)

    @property
    def end_offset(self) -> Offset:
        return self.memory.end_offset

    @property
    def lasting_end(self) -> Offset:
        return self.disk.end_offset

    def active_bytes(self, offset: Offset) -> int | None:
        return self.memory.active_bytes(offset)

    @property
    def snapshots(self) -> Snapshots:
        """They are kept with the disk's part. Those of what is lost with memory lie past its end at
        the next opening."""
        return self.disk.snapshots

    # -- writing -------------------------------------------------------------------------------

    def append(self, batches: Sequence[PlacedBatch]) -> None:
        self.memory.append(batches)

    def takes_at_once(
        self, size_bytes: int, max_timestamp: TimestampMs, epoch: LeaderEpoch
    ) -> bool:
        return self.memory.takes_at_once(size_bytes, max_timestamp, epoch)

    def sync(self) -> None:
        pass

    def roll(self) -> None:
        self.memory.roll()

    # -- reading -------------------------------------------------------------------------------

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        for _ in range(READ_ATTEMPTS_MAX):
            if offset < self.disk.end_offset:
                bound = min(end, self.disk.end_offset)
                if data := self.disk.read(offset, max_bytes, bound):
                    return data
            boundary = self.memory.snapshot()[0].base
            data = self.memory.read(offset, max_bytes, end)
            if self.memory.snapshot()[0].base == boundary:
                return data
        raise OffsetOutOfRange("a persisted shard", offset, self.start_offset, self.end_offset)

    def read_at_once(
        self, offset: Offset, max_bytes: int, end: Offset
    ) -> tuple[bytes, Offset] | None:
        return None

    def offsets_by_key(self, key: bytes, end: Offset) -> Iterator[Offset] | None:
        young, old = self.memory.offsets_by_key(key, end), self.disk.offsets_by_key(key, end)
        if young is None or old is None:
            return None
        return _once(chain(young, old), lambda offset, before: offset < before)

    def offsets_by_tag(self, tag: bytes, start: Offset, end: Offset) -> Iterator[Offset] | None:
        young = self.memory.offsets_by_tag(tag, start, end)
        old = self.disk.offsets_by_tag(tag, start, end)
        if young is None or old is None:
            return None
        return _once(chain(old, young), lambda offset, before: offset > before)

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        floor = self.disk.floor_by_timestamp(timestamp)
        return floor if floor < self.disk.end_offset else self.memory.floor_by_timestamp(timestamp)

    def segments(self) -> tuple[SegmentInfo, ...]:
        """A segment that is being copied is still memory's."""
        young = self.memory.segments()
        boundary = young[0].base_offset
        old = [
            segment
            for segment in self.disk.segments()
            if segment.base_offset < boundary and segment.size_bytes
        ]
        return adjoining([*(segment._replace(active=False) for segment in old), *young])

    # -- history -------------------------------------------------------------------------------

    def epochs(self) -> tuple[EpochStart, ...]:
        history = epoch_history.with_all(self.disk.epochs(), self.memory.epochs())
        if (
            history and history[0].start_offset < self._start
        ):  # the disk is trimmed with the next copy
            history = epoch_history.cut_start(history, self._start)
        return history

    def note_epochs(self, history: Sequence[EpochStart]) -> None:
        self.memory.note_epochs(history)

    def deleted(self) -> Set[Offset]:
        return EitherSet(self.disk.deleted(), self.memory.deleted())

    def delete(self, offsets: Iterable[Offset]) -> None:
        doomed, boundary = set(offsets), self.disk.end_offset
        old = {offset for offset in doomed if offset < boundary}
        self.memory.delete(doomed - old)
        if old:
            self.disk.delete(old)

    # -- changing the past ---------------------------------------------------------------------

    def truncate(self, end: Offset) -> None:
        if end >= self.end_offset:
            return
        if end >= self.disk.end_offset:
            self.memory.truncate(end)
        else:
            self.disk.truncate(end)
            self.disk.roll()
            self.memory.restart(self.disk.end_offset)
        if self.memory.end_offset <= self._start:
            self.restart(self._start)
        else:
            self._tell_epochs()

    def trim(self, start: Offset) -> None:
        self._start = start
        if start <= self.disk.end_offset:
            self.disk.trim(start)
        else:
            self.memory.trim(start)
            self.disk.restart(self.memory.snapshot()[0].base)

    def offload(self, end: Offset) -> None:
        """Only what is on disk: what is in memory alone goes there first."""
        self.disk.offload(end)

    def files_of(self, base_offset: Offset) -> tuple[Path, ...]:
        return self.disk.files_of(base_offset)

    def restart(self, start: Offset) -> None:
        self._start = start
        self.disk.restart(start)
        self.memory.restart(start)

    def rewrite(
        self, base_offset: Offset, rewriter: Rewriter, marks: Set[Offset] | None = None
    ) -> None:
        if not self._is_young(base_offset):
            self.disk.rewrite(base_offset, rewriter, marks)
        elif not self._is_half_copied(base_offset):
            self.memory.rewrite(base_offset, rewriter, marks)

    def prepare_rewrite(
        self, base_offset: Offset, rewriter: Rewriter, marks: Set[Offset]
    ) -> Sequence[Step]:
        """What is in memory now may be on disk when its turn comes, and stays as it is then."""
        if not self._is_young(base_offset):
            return self.disk.prepare_rewrite(base_offset, rewriter, marks)
        if self._is_half_copied(base_offset):
            return []
        steps = self.memory.prepare_rewrite(base_offset, rewriter, marks)

        def put_in_force() -> None:
            if not self._is_half_copied(base_offset):
                for step in steps:
                    step()

        return [put_in_force]

    def _is_young(self, base_offset: Offset) -> bool:
        return any(segment.base == base_offset for segment in self.memory.snapshot())

    def _is_half_copied(self, base_offset: Offset) -> bool:
        """Whether a copy of the memory segment there has failed. The disk has its records then, and
        none may come back by losing its mark here: it is rewritten when the disk has all of it."""
        return base_offset < self.disk.end_offset

    # -- end -----------------------------------------------------------------------------------

    def close(self) -> None:
        self.disk.close()

    def destroy(self) -> None:
        self.memory.destroy()
        self.disk.destroy()


def _once(offsets: Iterator[Offset], follows: Callable[[Offset, Offset], bool]) -> Iterator[Offset]:
    """A segment on its way to disk is in both places for a moment; its offsets come once. Memory is
    looked at first, so that a segment cannot slip from one to the other unseen."""
    before: Offset | None = None
    for offset in offsets:
        if before is None or follows(offset, before):
            before = offset
            yield offset
