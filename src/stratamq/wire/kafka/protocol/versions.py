"""Ranges of versions, as the schemas write them: `3-13`, `9+`, `0`."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

ANY_VERSION = 32_767
"""The version field is an int16; an open range ends where it does."""


class Versions(NamedTuple):
    """`first` to `last`, both included. `first > last` is the empty range."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        if self.first > self.last:
            return "none"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def covers(self, other: Versions) -> bool:
        return self.first <= other.first and other.last <= self.last


ALL = Versions(0, ANY_VERSION)
NONE = Versions(0, -1)


@cache
def versions_of(text: str) -> Versions:
    """Read `none`, `4`, `4-7` or `4+`. Only our own tables come here, so ValueError will do."""
    if text == "none":
        return NONE
    if text.endswith("+"):
        return Versions(int(text[:-1]), ANY_VERSION)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))
