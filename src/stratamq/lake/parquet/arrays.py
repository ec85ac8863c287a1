"""The kernel's buffers as Arrow's arrays, and Arrow's arrays as the kernel's rows. No copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from stratamq.lake.parquet._columns import Columns, Rows
from stratamq.lake.parquet.schema import BATCH_COLUMNS, BATCH_FIELDS, HEADER, TABLE_FIELDS

_TYPES = {field.name: field.type for field in (*BATCH_FIELDS, *TABLE_FIELDS)}


def take_arrays(columns: Columns) -> dict[str, pa.Array]:
    """What was filled, by name of column. The columns are empty afterwards."""
    lent, (rows, headers, tags), nulls = columns.take()
    part = {name: pa.py_buffer(buffer) for name, buffer in lent.items()}
    stamps, owns, keys, values, header_values = nulls
    names = _binary(part, "name", headers)
    pairs = [names, _binary(part, "header", headers, header_values)]
    structs = pa.StructArray.from_buffers(HEADER, headers, [None], 0, children=pairs)
    tag_values = _binary(part, "tag", tags)
    return {
        "offset": _fixed(part["offset"], None, "offset", rows, 0),
        "timestamp": _fixed(part["stamp"], part["stamp_valid"], "timestamp", rows, stamps),
        "producer_timestamp": _fixed(
            part["own_stamp"], part["own_valid"], "producer_timestamp", rows, owns
        ),
        "key": _binary(part, "key", rows, keys),
        "value": _binary(part, "value", rows, values),
        "headers": _lists(part["headers_at"], "headers", rows, structs),
        "tags": _lists(part["tags_at"], "tags", rows, tag_values),
    }


def constant(value: object, column: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, _TYPES[column]), rows)


def runs(values: Sequence[bool], ends: Sequence[int], column: str) -> pa.Array:
    """values[i] for all rows from ends[i - 1] up to ends[i]."""
    encoded = pa.RunEndEncodedArray.from_arrays(
        pa.array(ends, pa.int64()), pa.array(values, _TYPES[column])
    )
    return _compute().run_end_decode(encoded)


def least_ms(timestamps: pa.Array) -> int | None:
    """The smallest there is, in ms."""
    least: int | None = _compute().min(timestamps.cast(pa.int64())).as_py()
    return least


def _compute() -> Any:
    """Import Arrow where it is needed: a reader of batches alone starts sooner."""
    import pyarrow.compute

    return pyarrow.compute


def rows_of(table: pa.Table) -> Rows:
    """A row group, read back: the columns that batches are made from. Values may be missing: the
    rows then wait for them."""
    there = [name for name in BATCH_COLUMNS if name in table.column_names]
    part: dict[str, pa.Array] = {name: _whole(table.column(name)) for name in there}
    structs = part["headers"].values
    names, values = structs.field(0), structs.field(1)
    assert structs.offset == 0, "a whole row group begins at its first header"
    buffers: list[object | None] = [part["offset"].buffers()[1]]
    for column in ("timestamp", "producer_timestamp"):
        valid, data = part[column].buffers()
        buffers += [data, valid]
    for column in ("key", "value"):
        buffers += _nullable_buffers(part[column]) if column in part else [None] * 3
    buffers.append(part["headers"].buffers()[1])
    buffers += _nullable_buffers(names)[:2]
    buffers += _nullable_buffers(values)
    return Rows(table.num_rows, len(structs), buffers)


def _nullable_buffers(array: pa.Array) -> list[object | None]:
    valid, places, data = array.buffers()
    return [places, data, valid]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """One array that begins at its buffers' beginning: what the kernel is made for."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    assert array.offset == 0, "a row group is read as a whole"
    return array


def _fixed(data: Any, valid: Any, column: str, rows: int, nulls: int) -> pa.Array:
    return pa.Array.from_buffers(_TYPES[column], rows, [valid if nulls else None, data], nulls)


def _binary(part: Mapping[str, Any], name: str, rows: int, nulls: int = 0) -> pa.Array:
    valid = part[f"{name}_valid"] if nulls else None
    return pa.Array.from_buffers(pa.binary(), rows, [valid, part[f"{name}_at"], part[name]], nulls)


def _lists(places: Any, column: str, rows: int, children: pa.Array) -> pa.Array:
    return pa.ListArray.from_buffers(_TYPES[column], rows, [None, places], 0, children=[children])
