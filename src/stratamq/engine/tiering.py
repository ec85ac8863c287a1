"""What an engine does for object storage: hand a segment out, copy it, drop what is stored there.

A copy is links to the segment's files where there are files, else its batches one after the other,
which is what such a file holds.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from stratamq.engine.contract import ExportedSegment
from stratamq.engine.shard import Shard
from stratamq.log import names
from stratamq.log.contract import SegmentInfo, ShardStore
from stratamq.log.disk import PRIVATE_FOLDER
from stratamq.model.errors import NotFound, OffsetOutOfRange, StorageError
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import read_header, walk


def hand_out(shard: Shard, base_offset: Offset, stable: Offset) -> SegmentInfo:
    """A sealed segment. From now on compaction leaves it alone: what is deleted in the copy must
    stay deleted, and only the marks say so."""
    for segment in shard.store.segments():
        if segment.base_offset == base_offset and not segment.active:
            if segment.end_offset > stable:
                break
            shard.handed_out = max(shard.handed_out, segment.end_offset)
            return segment
    raise NotFound(f"{shard.name}: there is no sealed segment at {base_offset} that is decided")


def note_shown(shard: Shard, end: Offset) -> None:
    shard.shown = max(shard.shown, end)


def offload(shard: Shard, end: Offset) -> int:
    """The bytes that were freed: of segments wholly below `end` that the history has."""
    store, history = shard.store, shard.history
    if history is None:
        return 0
    bound = covered_to(store, history.segments(), end)
    before = _size(store)
    if bound > store.local_start:
        shard.producers.before_offload(store, shard.committed())
        store.offload(bound)
    return before - _size(store)


def covered_to(store: ShardStore, cold: Sequence[SegmentInfo], end: Offset) -> Offset:
    """Up to where sealed segments may go, oldest first and without leaving one out."""
    bound = store.local_start
    for segment in store.segments():
        if segment.active or segment.end_offset > end or not _covers(store, cold, segment):
            break
        bound = segment.end_offset
    return bound


def _covers(store: ShardStore, cold: Sequence[SegmentInfo], segment: SegmentInfo) -> bool:
    """Whether the files hold every batch of the segment. Where they leave something out, there must
    be nothing here either."""
    offset, end = max(segment.base_offset, store.start_offset), segment.end_offset
    if not cold or cold[-1].end_offset < end:
        return False
    for file in cold:
        if offset >= end:
            break
        if file.end_offset <= offset:
            continue
        if file.base_offset > offset:
            data = store.read(offset, 1, end)
            if data and read_header(data).base_offset < file.base_offset:
                return False
        offset = file.end_offset
    return offset >= end


def _size(store: ShardStore) -> int:
    return sum(segment.size_bytes for segment in store.segments())


CHUNK_BYTES = 4 << 20


def export(store: ShardStore, segment: SegmentInfo, folder: Path) -> ExportedSegment:
    """May be repeated. NotFound when the segment goes meanwhile."""
    target = folder / names.segment_file(segment.base_offset, names.LOG)
    try:
        folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        files = store.files_of(segment.base_offset)
        copies = [_link(path, folder / path.name) for path in files]
        if not copies:
            _write_out(store, segment, target)
    except (FileNotFoundError, OffsetOutOfRange) as error:
        raise NotFound(f"the segment at {segment.base_offset} is gone: {error}") from error
    except OSError as error:
        raise StorageError(f"the segment at {segment.base_offset}: {error}") from error
    log, index, timeindex = copies or (target, None, None)
    return ExportedSegment(log, index, timeindex, segment)


def _link(source: Path, target: Path) -> Path:
    """A copy where a link cannot be had, as between two devices."""
    with suppress(FileNotFoundError):
        target.unlink()
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)
    return target


def _write_out(store: ShardStore, segment: SegmentInfo, target: Path) -> None:
    offset = segment.base_offset
    with target.open("wb") as file:
        while data := store.read(offset, CHUNK_BYTES, segment.end_offset):
            file.write(data)
            offset = Offset(walk(data)[-1].last_offset + 1)
    if all(found.base_offset != segment.base_offset for found in store.segments()):
        raise FileNotFoundError("it went while it was written out")
