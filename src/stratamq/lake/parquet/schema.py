"""The columns of a cold file: their types, and how they are encoded. See docs/formats/parquet.md.

The columns that batches are made from lie next to each other, so that one read fetches them all.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HEADER = pa.struct([pa.field("name", pa.binary(), nullable=False), pa.field("value", pa.binary())])

BATCH_FIELDS = (
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
    pa.field("producer_timestamp", pa.int64()),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", pa.list_(pa.field("element", HEADER, nullable=False)), nullable=False),
)
"""What batches are made from."""

TABLE_FIELDS = (
    pa.field("tags", pa.list_(pa.field("element", pa.binary(), nullable=False)), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("aborted", pa.bool_(), nullable=False),
)
"""What only readers of the table ask for; a batch has it elsewhere."""

BATCH_COLUMNS = tuple(field.name for field in BATCH_FIELDS)
TYPED_COLUMN = "data"

KEY_PATH = "key"
TAG_PATH = "tags.list.element"

_DICTIONARIES = (
    "key",
    "headers.list.element.name",
    "headers.list.element.value",
    TAG_PATH,
    "partition",
)
_ENCODINGS = {
    "offset": "DELTA_BINARY_PACKED",
    "timestamp": "DELTA_BINARY_PACKED",
    "producer_timestamp": "DELTA_BINARY_PACKED",
    "value": "DELTA_LENGTH_BYTE_ARRAY",
}
_STATISTICS = ("offset", "timestamp", "producer_timestamp", "key", TAG_PATH, "partition", "aborted")

ROWS_PER_LOOK = 64
"""After so many rows Arrow looks whether a page is full (1 MiB). Its own 1024 would make pages of
large values as large as a row group, and a reader of one value unpacks a page."""

FALSE_HITS = 0.01
"""How often a bloom filter lets a row group through that has not got the key or tag."""

KEY_BYTES_MIN = 64
"""A row group of so many bytes has so many keys at most, or a little too many for its filter.
Filters begin with room for all of them and are folded to what is needed."""


def arrow_schema(typed: pa.DataType | None = None) -> pa.Schema:
    """The columns of a file, with those of the values' declared format after them."""
    extra = () if typed is None else (pa.field(TYPED_COLUMN, typed),)
    return pa.schema([*BATCH_FIELDS, *TABLE_FIELDS, *extra])


def leaf_paths(name: str, kind: pa.DataType) -> list[str]:
    """The columns that Parquet makes of a field."""
    if pa.types.is_struct(kind):
        return [path for field in kind for path in leaf_paths(f"{name}.{field.name}", field.type)]
    return [name]


def writer_options(schema: pa.Schema, zstd_level: int, row_group_bytes: int) -> dict[str, Any]:
    """Return pyarrow's options for a file: everything that its readers can use to skip."""
    typed = [
        path
        for field in schema
        if field.name == TYPED_COLUMN
        for path in leaf_paths(field.name, field.type)
    ]
    bloom = {"fpp": FALSE_HITS, "ndv": max(row_group_bytes // KEY_BYTES_MIN, 64)}
    return {
        "version": "2.6",
        "compression": "zstd",
        "compression_level": zstd_level,
        "use_dictionary": [*_DICTIONARIES, *typed],
        "column_encoding": _ENCODINGS,
        "write_statistics": [*_STATISTICS, *typed],
        "write_page_index": True,
        "write_page_checksum": True,
        "write_batch_size": ROWS_PER_LOOK,
        "bloom_filter_options": {KEY_PATH: bloom, TAG_PATH: bloom},
        "sorting_columns": [pq.SortingColumn(schema.get_field_index("offset"))],
    }
