"""The one error of catalogs and tables, in a module that a node imports without pyiceberg."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stratamq.model.errors import StrataError


class TableError(StrataError):
    """A catalog or a table said no, or did not answer. The table is as it was, or as was asked:
    asking again does the rest."""


@contextmanager
def as_table_error(what: str) -> Iterator[None]:
    """Raise whatever pyiceberg, SQLAlchemy or an HTTP library raises as a TableError. They have no
    root in common; only the first line is repeated, since further ones may hold a whole request."""
    try:
        yield
    except StrataError:
        raise
    except Exception as error:
        said = (str(error).splitlines() or [""])[0][:300]
        raise TableError(f"{what}: {type(error).__name__}: {said}") from error
