"""A copy of a sealed segment for whoever moves it: links to its files where there are files, else
its batches one after the other, which is what such a file holds."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from stratamq.engine.contract import ExportedSegment
from stratamq.log import names
from stratamq.log.contract import SegmentInfo, ShardStore
from stratamq.model.errors import NotFound, OffsetOutOfRange, StorageError
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import walk

CHUNK_BYTES = 4 << 20


def export(store: ShardStore, segment: SegmentInfo, folder: Path) -> ExportedSegment:
    """May be repeated. NotFound when the segment goes meanwhile."""
    target = folder / names.segment_file(segment.base_offset, names.LOG)
    try:
        folder.mkdir(parents=True, exist_ok=True)
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
