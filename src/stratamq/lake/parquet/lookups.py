"""Records of a cold file by key and by tag: the column alone is read, where it may hold the answer.

Row groups are passed over by the statistics in the footer, which is at hand, and by their bloom
filters, which one read fetches for the whole file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stratamq.lake.parquet._columns import filter_may_hold
from stratamq.lake.parquet.reading import ColdFile
from stratamq.lake.parquet.schema import KEY_PATH, TAG_PATH


def offsets_by_key(file: ColdFile, key: bytes, end: int) -> Iterator[int]:
    """Offsets below `end` of the records with this key, newest first."""
    for number in reversed(range(len(file.places))):
        yield from key_in_group(file, number, key, end)


def offsets_by_tag(file: ColdFile, tag: bytes, start: int, end: int) -> Iterator[int]:
    """Offsets in start..end-1 of the records with this tag, oldest first."""
    for number in range(len(file.places)):
        yield from tag_in_group(file, number, tag, start, end)


def key_in_group(file: ColdFile, number: int, key: bytes, end: int) -> list[int]:
    """Look up a key in one row group."""
    if file.places[number].base_offset >= end or not may_hold(file, number, KEY_PATH, key):
        return []
    table = file.read_columns(number, ("offset", "key"))
    hits = pc.equal(table.column("key"), pa.scalar(key, pa.binary()))
    found: list[int] = table.column("offset").filter(hits).to_pylist()
    return [offset for offset in reversed(found) if offset < end]


def tag_in_group(file: ColdFile, number: int, tag: bytes, start: int, end: int) -> list[int]:
    place = file.places[number]
    outside = place.last_offset < start or place.base_offset >= end
    if outside or not may_hold(file, number, TAG_PATH, tag):
        return []
    table = file.read_columns(number, ("offset", "tags")).combine_chunks()
    # The rows whose list has the tag, each once: a record may say it twice.
    tags = table.column("tags")
    hits = pc.equal(pc.list_flatten(tags), pa.scalar(tag, pa.binary()))
    rows = pc.unique(pc.list_parent_indices(tags).filter(hits))
    found: list[int] = table.column("offset").take(rows).to_pylist()
    return [offset for offset in found if start <= offset < end]


def may_hold(file: ColdFile, number: int, path: str, value: bytes) -> bool:
    """Whether it is open that the column has this value there."""
    place = file.places[number]
    if place.row_group < 0:
        return False
    group = file.metadata.row_group(place.row_group)
    chunks = (group.column(index) for index in range(group.num_columns))
    chunk = next(chunk for chunk in chunks if chunk.path_in_schema == path)
    return _in_range(chunk, value) and _in_filter(file, chunk, value)


def _in_range(chunk: Any, value: bytes) -> bool:
    known = chunk.statistics if chunk.is_stats_set else None
    if known is None or not known.has_min_max:
        # A column without any value has no least one either.
        return known is None or known.num_values > 0
    return bool(known.min <= value <= known.max)


def _in_filter(file: ColdFile, chunk: Any, value: bytes) -> bool:
    """A filter is a short head and then its bits, a power of two of bytes."""
    size = chunk.bloom_filter_length
    if not size:
        return True
    bits = 1 << (size.bit_length() - 1)
    found = file.index_bytes(chunk.bloom_filter_offset, size)
    return len(found) < size or filter_may_hold(found[size - bits :], value)
