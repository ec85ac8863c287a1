"""Which files a shard has: a list in its folder, so that a file that is lost is missed.

    c1c6a3f1 segment 60          the shard has a segment that begins at offset 60, not sealed
    ........ sealed 0 4096       it was sealed or rewritten, and its log has this size
    ........ removed 0           it was removed on purpose: trimmed, offloaded, cut or compacted
    ........ lost 70 85          offsets 70 to 84 were given out, and their bytes are gone
    ........ cutting 70          a truncation to this end has begun
    ........ cut 70              and is done
    ........ whole 60            its offsets follow each other without a gap
    ........ gaps 60             they may have gaps: it was rewritten, or a leader's log had them
    ........ beside deletions    a small file of this name was written

Each line begins with the CRC32C of the rest, and lines are only appended, synced. What belongs
together stands in one line, with semicolons: all of it is there after a crash, or none. A shard
without a list has one segment, which begins at offset 0: nothing is written before the first roll.
Lists of earlier versions do not say `whole`, and gaps in their segments are believed.

| step                  | order                                                                  |
|-----------------------|------------------------------------------------------------------------|
| a segment is added    | the empty file, its name durable; `segment`, `whole`; then batches     |
| a segment is removed  | `removed`; then its files                                              |
| a segment is sealed   | `sealed` together with the next `segment`                              |
| a segment is rewritten| `sealed` with the new size, `gaps`; then the new file takes the old    |
|                       | one's name                                                             |
| a batch leaves a gap  | `gaps`; then the batch                                                 |
| a truncation          | `cutting`, `removed`; files; index rows; `cut`                         |
| a small file          | the file; `beside`                                                     |

So after a crash a file that is not listed is empty, or is one that a removal has left; and one that
is listed and not there was lost. A list may also be older than the folder, as a backup of a running
node may have it: a file that goes on where the listed ones end is then taken into the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from stratamq.log import names
from stratamq.log.checked_lines import decode_lines, encode_lines
from stratamq.log.disk import Disk, read_all, replace_file
from stratamq.model.types import EARLIEST, Offset

LINES_MAX = 1000
"""A longer list is written again when the shard is opened, without what has passed."""

SIZES_MAX = 8
"""Sizes that are remembered of a sealed segment. Opening a shard leaves one."""

AND = "; "
STATEMENT = re.compile(
    r"(segment|sealed|removed|lost|cutting|cut|whole|gaps|beside) (\S+)(?: (\d+))?"
)


def added(base: Offset) -> list[str]:
    """The statements about a new, empty segment."""
    return [f"segment {base}", f"whole {base}"]


class Comparison(NamedTuple):
    """What the list and the folder make of each other. All are bases of segments."""

    present: list[Offset]
    """Segments to be opened."""
    missing: list[Offset]
    """Listed, and not there."""
    passed: list[Offset]
    """Listed, not there, and wholly below where the log begins: nothing is missing."""
    left: list[Offset]
    """Files that a removal has left: it goes on."""
    unlisted: list[Offset]
    """Files to be listed, since the list is not complete."""
    doubtful: list[Offset]
    """Files that a complete list does not name: a roll was cut off, or the list is older than the
    folder, or they are not of this shard."""


class FileList:
    """What is known of a shard's files. `complete` unless the list is damaged or ends with a part
    of a line: then the shard may have segments that the list does not name."""

    __slots__ = (
        "_disk",
        "_folder",
        "_lines",
        "_size",
        "beside",
        "complete",
        "cutting",
        "damage",
        "lost",
        "removed",
        "segments",
        "whole",
    )

    def __init__(self, disk: Disk, folder: Path, *, fresh: bool = False) -> None:
        """With `fresh` there is no list to look for."""
        self._disk, self._folder = disk, folder
        self.segments: dict[Offset, tuple[int, ...]] = {EARLIEST: ()}
        """By base, with the sizes that the log of a sealed segment may have: a rewrite that was cut
        off has noted its size, and the file has still an earlier one."""
        self.whole: set[Offset] = {EARLIEST}
        """Segments whose offsets follow each other: a gap in one of these is damage."""
        self.removed: set[Offset] = set()
        self.lost: dict[Offset, Offset] = {}
        self.beside: set[str] = set()
        self.cutting: Offset | None = None
        self.complete = True
        self.damage: list[str] = []
        self._size = self._lines = 0
        if not fresh:
            self._load()

    @property
    def _path(self) -> Path:
        """Most shards have no list, and putting a path together is slow."""
        return self._folder / names.FILE_LIST

    def _load(self) -> None:
        if not self._disk.exists(self._path):
            return
        data = read_all(self._disk, self._path)
        found = decode_lines(data)
        if not found.lines:
            self.complete = False
            self.whole.clear()
            self.damage.append(f"{self._path}: no line of it can be read")
            return
        self.segments.clear()
        self.whole.clear()
        for line in found.lines:
            for statement in line.split(AND):
                self._apply(statement)
        self._lines, self._size = len(found.lines), found.end
        if found.torn or found.damaged:
            self.complete = False
            self.whole.clear()
            self.damage += [f"{self._path}: damaged at byte {at}" for at in found.damaged]

    def _apply(self, statement: str) -> None:
        match = STATEMENT.fullmatch(statement)
        if match is None:
            self.complete = False
            self.damage.append(f"{self._path}: {statement!r} is not understood")
            return
        kind, first, second = match.groups()
        if kind == "beside":
            self.beside.add(first)
            return
        base = Offset(int(first))
        if kind == "segment":
            self.segments[base] = ()  # not sealed, or not any more
            self.removed.discard(base)
        elif kind == "sealed":
            self.segments[base] = (*self.segments.get(base, ())[1 - SIZES_MAX :], int(second))
        elif kind == "removed":
            self.segments.pop(base, None)
            self.lost.pop(base, None)
            self.whole.discard(base)
            self.removed.add(base)
        elif kind == "lost":
            self.lost.pop(base, None)
            if int(second) > base:  # an empty range says that the bytes are back
                self.lost[base] = Offset(int(second))
        elif kind == "whole":
            self.whole.add(base)
        elif kind == "gaps":
            self.whole.discard(base)
        else:
            self.cutting = base if kind == "cutting" else None

    def note(self, statements: Iterable[str]) -> None:
        """All of them, durable on return."""
        new = list(statements)
        if not new:
            return
        if not self._size:  # the first line says what was true without it
            new = [f"segment {base}" for base in sorted(self.segments)] + self._wholes() + new
        data = encode_lines([AND.join(new)])
        if self._size:
            self._append(data)
        else:  # whole or not at all: an empty list would say that there are no segments
            replace_file(self._disk, self._path, data)
        self._size += len(data)
        self._lines += 1
        for statement in new:
            self._apply(statement)

    def _wholes(self) -> list[str]:
        return [f"whole {base}" for base in sorted(self.whole & self.segments.keys())]

    def _append(self, data: bytes) -> None:
        file = self._disk.open(self._path)
        if file.size() > self._size:  # a line that a crash has torn
            file.truncate(self._size)
        try:
            file.write([data], self._size, durable=True)
        except OSError:
            file.truncate(self._size)  # what was not noted must not be read as if it were
            raise

    def sync(self) -> None:
        """Make durable what was read: a process that was killed may not have got to it. The bytes
        are written again, since after a sync that failed the kernel takes them for written."""
        if self._size:
            file = self._disk.open(self._path)
            file.write([file.read(self._size, 0)], 0, durable=True)

    def note_beside(self, name: str) -> None:
        if name not in self.beside:
            self.note([f"beside {name}"])

    def write_again(self, *, keep_damaged: bool = False) -> None:
        """Only what holds now. A damaged list is kept for inspection."""
        if keep_damaged and self._disk.exists(self._path):
            self._disk.rename(self._path, self._path.with_name(names.FILE_LIST + names.DAMAGED))
        lines = [f"segment {base}" for base in sorted(self.segments)]
        for base, sizes in sorted(self.segments.items()):
            lines += [f"sealed {base} {size}" for size in sizes]
        lines += self._wholes()
        lines += [f"lost {start} {end}" for start, end in sorted(self.lost.items())]
        lines += [f"beside {name}" for name in sorted(self.beside)]
        if self.cutting is not None:  # it is finished later, and until then the index is ahead
            lines.append(f"cutting {self.cutting}")
        # A list without a line would look lost, and as if a first segment were missing.
        data = encode_lines(lines or [f"removed {EARLIEST}"])
        replace_file(self._disk, self._path, data)
        self._size, self._lines = len(data), len(lines)
        self.removed.clear()
        self.complete = True

    def compare(self, sizes: Mapping[Offset, int], begin: Offset) -> Comparison:
        """`sizes` are those of the log files that are there, `begin` is where the log begins."""
        if not self._size and sizes.keys() - {EARLIEST}:
            # The list is lost, or the shard is older than lists are: the files are believed.
            self.complete = False
            self.segments = {base: () for base in self.segments if base in sizes}
            self.whole.clear()
        left = sorted(self.removed & sizes.keys())
        new = sorted(sizes.keys() - self.segments.keys() - self.removed)
        unlisted, doubtful = ([], new) if self.complete else (new, [])
        known = sorted({*self.segments, *unlisted})
        missing = [base for base in known if base not in sizes]
        follower = dict(pairwise(known))
        passed = [base for base in missing if follower.get(base, begin + 1) <= begin]
        return Comparison(
            present=[base for base in known if base in sizes],
            missing=[base for base in missing if base not in passed],
            passed=passed,
            left=left,
            unlisted=unlisted,
            doubtful=doubtful,
        )

    @property
    def is_long(self) -> bool:
        return self._lines > LINES_MAX
