"""What a declared value format gives: typed columns beside the raw value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol


class ParsedValues(NamedTuple):
    """A struct per value, null where it does not parse; and how often that was."""

    column: Any
    unparsed: int
    misfits: int


class ValueColumns(Protocol):
    """Parses values. A null value is null, and nobody's fault."""

    @property
    def arrow_type(self) -> Any:
        """The struct that `parse` gives."""

    def parse(self, values: Any) -> ParsedValues:
        """A whole binary array, columnar."""

    def describe(self, counts: Mapping[str, int]) -> str:
        """Format, schema and counts, for the file's metadata."""
