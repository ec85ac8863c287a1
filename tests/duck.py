"""DuckDB asked once, on a connection of its own: the module's shared connection holds on to the
unfinished result of whoever used it last, and refuses the next."""

from __future__ import annotations

from typing import Any

import duckdb

# Extensions are downloaded when they are first used, which tests do not do.
OFFLINE = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


def asked(query: str, *parameters: object) -> list[tuple[Any, ...]]:
    with duckdb.connect(":memory:", config=OFFLINE) as database:
        rows: list[tuple[Any, ...]] = database.execute(query, list(parameters)).fetchall()
        return rows
