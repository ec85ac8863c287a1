"""Whether a file has records in it that are deleted by now. Pure.

Marks of deleted records are stored as long as a file may have the record, so their number shows it:
more of them than the file was made without. Those below a shard's start are forgotten; where the
start has come to lie within a file since it was made, numbers say nothing, and any mark will do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol, TypeVar

Mark = TypeVar("Mark", bound=int)


class FileStretch(Protocol):
    """What a file says of itself: a TierFile, or the description of one that clients get."""

    @property
    def base_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def deleted(self) -> int: ...

    @property
    def start(self) -> int: ...


def within(file: FileStretch, deleted: Sequence[Mark]) -> Sequence[Mark]:
    """The marks (all of a shard's, in their order) that lie in the file."""
    return deleted[bisect_left(deleted, file.base_offset) : bisect_left(deleted, file.end_offset)]


def is_outdated(file: FileStretch, deleted: Sequence[int], start: int) -> bool:
    marks = within(file, deleted)
    return len(marks) > file.deleted or (bool(marks) and is_cut_into(file, start))


def is_cut_into(file: FileStretch, start: int) -> bool:
    """Whether it has, besides what counts, records below the shard's start."""
    return max(file.base_offset, file.start) < start < file.end_offset
