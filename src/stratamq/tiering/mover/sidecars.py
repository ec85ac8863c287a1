"""Sidecars of a raw segment that was made anew: where its batches are by now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stratamq.lake.parquet.writing import read_chunks
from stratamq.log.scan import Intact
from stratamq.log.sidecar import collect_points, encode_offset_points, encode_time_points
from stratamq.model.types import Offset, Position
from stratamq.tiering.mover.brief import BriefFile
from stratamq.wire.kafka.records import read_header, walk


def write_sidecars(log: Path, base_offset: Offset) -> tuple[Path, Path]:
    """Beside the log, such as it would have been sealed with."""
    offsets, times = collect_points(_batches(log))
    index, timeindex = log.with_suffix(".index"), log.with_suffix(".timeindex")
    index.write_bytes(encode_offset_points(base_offset, offsets))
    timeindex.write_bytes(encode_time_points(base_offset, times))
    return index, timeindex


def _batches(log: Path) -> Iterator[Intact]:
    """Their headers; nobody asks for more here."""
    position = 0
    with BriefFile(log) as file:
        for chunk in read_chunks(file):
            for span in walk(chunk):
                header = read_header(chunk[span.position :])
                yield Intact(Position(position + span.position), header, b"")
            position += len(chunk)
