"""A table as its users read it: with their own catalogs and engines, none of ours."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tests.duck import asked

COLUMNS = ("partition", "offset", "timestamp", "key", "value", "tags", "aborted")


class Found(NamedTuple):
    rows: int
    sum: str


def found(rows: list[tuple[Any, ...]]) -> Found:
    plain = [tuple(_plain(value) for value in row) for row in rows]
    ordered = sorted(plain, key=lambda row: row[:2])
    return Found(len(ordered), hashlib.sha256(repr(ordered).encode()).hexdigest())


def _plain(value: Any) -> Any:
    """The same moment is the same, whatever a library's time zones are called."""
    return value.timestamp() if isinstance(value, datetime) else value


@contextmanager
def users_table(path: Path, name: str = "orders", **properties: str) -> Iterator[Table]:
    """pyiceberg with pyarrow's files, from nothing but the catalog."""
    with closing(SqlCatalog("stratamq", uri=f"sqlite:///{path}", **properties)) as catalog:
        yield catalog.load_table(("stratamq", name))


def by_pyiceberg(table: Table, where: str = "true") -> Found:
    """All its rows, through Iceberg."""
    scan = table.scan(selected_fields=COLUMNS)
    if where != "true":
        scan = scan.filter(where)
    columns = scan.to_arrow().to_pydict()
    return found(list(zip(*(columns[name] for name in COLUMNS), strict=True)))


def by_duckdb(table: Table, where: str = "true") -> Found:
    """DuckDB over the files that Iceberg names. Its own Iceberg extension is downloaded when it is
    first used, which tests do not do."""
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    seconds = {"timestamp": 'epoch_ms("timestamp") / 1000.0'}
    names = ", ".join(seconds.get(name, f'"{name}"') for name in COLUMNS)
    query = f"select {names} from read_parquet($1, union_by_name = true) where {where}"
    return found(asked(query, files))
