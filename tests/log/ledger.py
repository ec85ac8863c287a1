"""What must be found after a crash, what may be found, and holding a log to it.

Submitting a batch makes it possible; acknowledging it makes it certain. While an operation that
changes the past is under way, what it takes away is merely possible; when it has returned, it is
gone. Everything that is neither certain nor possible would be invented.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise

from stratamq.log.contract import PlacedBatch
from stratamq.log.sealed_segment import SealedSegment
from stratamq.log.shard_log import FileShardLog
from stratamq.model.types import TimestampMs
from stratamq.wire.kafka.records import BatchHeader, read_header
from tests.log.support import KEYS, TAGS, Content, read_log, verified_by_key, verified_by_tag


@dataclass
class Ledger:
    """Batches are known by their base offset and their bytes."""

    possible: dict[int, set[bytes]] = field(default_factory=dict)
    certain: dict[int, bytes] = field(default_factory=dict)
    either: tuple[dict[int, bytes], dict[int, bytes]] | None = None
    """Before and after of a rewrite that is under way: one of them, whole."""
    gaps: set[int] = field(default_factory=set)
    starts: set[int] = field(default_factory=lambda: {0})
    local_starts: set[int] = field(default_factory=lambda: {0})
    """Where what is kept here may begin: below it others have everything."""
    end_min: int = 0
    deleted: set[int] = field(default_factory=set)
    deleted_maybe: set[int] = field(default_factory=set)
    unsynced: dict[int, bytes] = field(default_factory=dict)

    def copy(self) -> Ledger:
        return deepcopy(self)

    # -- what happens --------------------------------------------------------------------------

    def submit(self, batches: Iterable[PlacedBatch]) -> None:
        for batch in batches:
            base = batch.header.base_offset
            self.possible.setdefault(base, set()).add(batch.data)
            self.unsynced[base] = batch.data

    def refuse(self, batches: Iterable[PlacedBatch]) -> None:
        """The append failed, clearly. Its bytes may still turn up after a crash."""
        for batch in batches:
            self.unsynced.pop(batch.header.base_offset, None)

    def forget_refused(self) -> None:
        """A sync came after the refusal: what was refused can no longer turn up."""
        self.possible = {base: {data} for base, data in self.certain.items()}

    def acknowledge(self) -> None:
        for base, data in self.unsynced.items():
            self.certain[base] = data
            self.possible[base] = {data}
            self.end_min = max(self.end_min, read_header(data).next_offset)
        self.unsynced = {}

    def begin_truncate(self, end: int) -> None:
        keep = {base: data for base, data in self.certain.items() if _next(data) <= end}
        self.certain = keep
        self.unsynced = {base: data for base, data in self.unsynced.items() if _next(data) <= end}
        self.end_min = min(self.end_min, max(map(_next, keep.values()), default=min(self.starts)))
        self.deleted_maybe |= {offset for offset in self.deleted if offset >= self.end_min}
        self.deleted -= self.deleted_maybe

    def end_truncate(self, end: int) -> None:
        """Truncation is durable, and so is what is left."""
        for base in list(self.possible):
            self.possible[base] = {data for data in self.possible[base] if _next(data) <= end}
        self.acknowledge()
        self.deleted_maybe.clear()

    def begin_trim(self, start: int) -> None:
        self.starts.add(start)
        self.certain = {base: data for base, data in self.certain.items() if _next(data) > start}
        self.deleted_maybe |= {offset for offset in self.deleted if offset < start}
        self.deleted -= self.deleted_maybe

    def end_trim(self, start: int) -> None:
        self.starts = {start}
        self.end_min = max(self.end_min, start)
        self.deleted_maybe.clear()

    def begin_offload(self, local_start: int) -> None:
        self.local_starts.add(local_start)

    def end_offload(self, local_start: int) -> None:
        self.local_starts = {local_start}
        self.certain = {base: data for base, data in self.certain.items() if base >= local_start}

    def begin_restart(self, start: int) -> None:
        self.starts.add(start)
        self.starts |= self.local_starts
        self.local_starts.add(0)
        self.certain, self.unsynced = {}, {}
        self.end_min = 0
        self.deleted_maybe |= self.deleted
        self.deleted = set()

    def end_restart(self, start: int) -> None:
        self.starts, self.end_min, self.local_starts = {start}, start, {0}
        self.possible, self.gaps = {}, set()
        self.deleted_maybe.clear()

    def begin_rewrite(self, old: Mapping[int, bytes], new: Mapping[int, bytes]) -> None:
        self.either = dict(old), dict(new)
        for base, data in new.items():
            self.possible[base].add(data)
        for base in set(old) - set(new):
            self.gaps |= set(range(base, _next(old[base])))
        for base in old:
            self.certain.pop(base, None)
        lost = {
            offset for offset in self.deleted if min(old) <= offset < max(map(_next, old.values()))
        }
        self.deleted_maybe |= lost
        self.deleted -= lost

    def end_rewrite(self) -> None:
        assert self.either is not None
        old, new = self.either
        self.either = None
        for base in old:
            self.possible[base] = {new[base]} if base in new else set()
        self.certain.update(new)
        self.deleted_maybe.clear()

    def begin_delete(self, offsets: Iterable[int]) -> None:
        self.deleted_maybe |= set(offsets)

    def end_delete(self) -> None:
        self.deleted |= self.deleted_maybe
        self.deleted_maybe.clear()

    # -- holding a log to it -------------------------------------------------------------------

    def check(self, log: FileShardLog) -> Content:
        """Everything that must hold of a log that was just opened."""
        content = read_log(log)
        self._check_batches(log, content)
        self._check_ends(log, content)
        check_order(log, content, self.gaps | offloaded(log))
        check_lookups(log, content)
        check_epochs(log, content)
        deleted = set(log.deleted())
        assert self.deleted <= deleted, "an acknowledged deletion was forgotten"
        assert deleted <= self.deleted | self.deleted_maybe, "a deletion nobody asked for"
        return content

    def check_kept(self, log: FileShardLog) -> None:
        """Everything acknowledged is there, nothing is invented, and no offset is given twice."""
        self._check_batches(log, read_log(log))
        assert log.end_offset >= self.end_min

    def settle(self, content: Content) -> None:
        """What was found is how it is from now on."""
        self.certain = {header.base_offset: data for header, data in content.batches}
        self.possible = {base: {data} for base, data in self.certain.items()}
        self.unsynced, self.either = {}, None
        self.end_min = 0

    def _check_batches(self, log: FileShardLog, content: Content) -> None:
        found: dict[int, bytes] = {header.base_offset: data for header, data in content.batches}
        for base, data in found.items():
            assert data in self.possible.get(base, ()), f"invented: a batch at {base}"
        here = {base: data for base, data in self.certain.items() if base >= log._starts.offloaded}
        assert min(found, default=log.end_offset) >= log._starts.offloaded, "kept in two places"
        for base, data in here.items():
            assert base in found, f"lost: the acknowledged batch at {base}"
            assert found[base] == data, f"changed: the acknowledged batch at {base}"
        if self.either is not None:
            old, new = self.either
            kept = {base: data for base, data in found.items() if base in old}
            assert kept in (old, new), "half a rewrite"

    def _check_ends(self, log: FileShardLog, content: Content) -> None:
        assert log.start_offset in self.starts
        assert log._starts.offloaded in self.local_starts, (
            "offloaded further than anybody asked for"
        )
        assert log.end_offset >= log.local_start, "offsets would be given twice"
        assert log.end_offset >= self.end_min, "offsets would be given twice"
        limit = max(
            (_next(data) for batches in self.possible.values() for data in batches), default=0
        )
        assert log.end_offset <= max(limit, *self.starts, self.end_min)


def _next(data: bytes) -> int:
    return read_header(data).next_offset


def offloaded(log: FileShardLog) -> set[int]:
    """Offsets that others have."""
    return set(range(log.start_offset, log.local_start))


def check_order(log: FileShardLog, content: Content, gaps: set[int]) -> None:
    """Offsets are consecutive, but for what compaction took and what damage hides."""
    damaged = {
        offset
        for found in content.damaged
        for offset in range(found.offset, found.error.next_offset)
    }
    expected = log.start_offset
    for header, _ in content.batches:
        missing = set(range(expected, header.base_offset)) - damaged - gaps
        assert not missing, f"no record at {sorted(missing)}, before {header.base_offset}"
        assert header.base_offset >= expected or expected == log.start_offset
        expected = header.next_offset
    assert not set(range(expected, log.end_offset)) - damaged - gaps
    check_segments(log, content)


def check_segments(log: FileShardLog, content: Content) -> None:
    """They follow each other without a break, and know their size and age."""
    segments = log.segments()
    for before, after in pairwise(segments):
        assert before.end_offset <= after.base_offset
        assert not before.active
    assert segments[-1].active
    if not content.damaged:
        check_sidecars(log)
    if content.damaged or log.start_offset != segments[0].base_offset:
        return  # not all of them can be read as a whole
    for info in segments:
        span = range(info.base_offset, info.end_offset)
        headers = [header for header, _ in content.batches if header.base_offset in span]
        ages = [header.max_timestamp for header in headers]
        assert info.size_bytes == sum(header.size_bytes for header in headers)
        assert info.first_timestamp == (ages[0] if ages else -1)
        assert info.max_timestamp == max(ages, default=-1)


def check_sidecars(log: FileShardLog) -> None:
    """No entry of a sealed segment's index files leads astray."""
    for sealed in log._segments.all[:-1]:
        assert isinstance(sealed, SealedSegment)
        found = {one.header.last_offset: one for one in sealed.batches()}
        offsets, times = sealed._offset_sidecar(), sealed._time_sidecar()
        for point in map(offsets.point, range(len(offsets))):
            assert found[point.last_offset].position == point.position
        for time in map(times.point, range(len(times))):
            assert found[time.offset].header.max_timestamp == time.timestamp


def check_lookups(log: FileShardLog, content: Content) -> None:
    """Keys, tags and timestamps find what a scan finds."""
    records = content.records(log.start_offset)
    for key in KEYS:
        newest_first = [at for at in sorted(records, reverse=True) if records[at].key == key]
        assert verified_by_key(log, records, key) == newest_first, key
    for tag in TAGS:
        oldest_first = [at for at in sorted(records) if tag in records[at].tags]
        assert verified_by_tag(log, records, tag) == oldest_first, tag
    for timestamp in {found.timestamp + late for found in records.values() for late in (0, 1)}:
        floor = log.floor_by_timestamp(TimestampMs(timestamp))
        early = [at for at in records if at < floor and records[at].timestamp >= timestamp]
        assert not early, f"a search for {timestamp} would begin at {floor}, behind {early}"


def check_epochs(log: FileShardLog, content: Content) -> None:
    """The history says of every batch which epoch wrote it, and speaks of nothing else."""
    history = log.epochs()
    assert list(history) == sorted(set(history))
    assert len({entry.epoch for entry in history}) == len(history)
    assert len({entry.start_offset for entry in history}) == len(history)
    assert not any("epoch" in text for text in log.damage), log.damage
    assert all(log.start_offset <= entry.start_offset <= log.end_offset for entry in history)
    for header, _ in content.batches:
        assert epoch_at(log, header) == header.leader_epoch


def epoch_at(log: FileShardLog, header: BatchHeader) -> int:
    known = [entry.epoch for entry in log.epochs() if entry.start_offset <= header.last_offset]
    return known[-1] if known else -1
