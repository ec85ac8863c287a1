"""Values parsed where messages arrive, as columns that fit the whole table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def fitted(found: Any, kind: Any, rows: int) -> Any:
    """`found` with the fields of `kind`: nulls where it has not got one."""
    if found is None:
        return pa.nulls(rows, kind)
    if not pa.types.is_struct(kind):
        return found.cast(kind)
    have = {found.type.field(at).name: found.field(at) for at in range(found.type.num_fields)}
    children = [fitted(have.get(field.name), field.type, rows) for field in kind]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=found.is_null())
