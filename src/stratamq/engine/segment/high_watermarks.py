"""The high watermarks of replicas on disk: a file that is appended to, with a checksum per line.

    91fc00b3 4f1c..._0 1042

The last line of a shard counts. A replica may know an earlier watermark or none, and learns the
right one from its leader; it must not know a later one, so a watermark that goes down is durable
before anything is cut. A damaged line may be such a one, of any shard: it is reported, and what
was saved before it counts no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from stratamq.log.checked_lines import decode_lines, encode_lines
from stratamq.log.disk import Disk, read_all, replace_file
from stratamq.model.damage import report_damage
from stratamq.model.types import Offset, ShardName

LINES_SPARE = 1000
"""The file is written again, with one line per shard, when it has this many lines more."""


class HighWatermarks:
    """Durable after `save`. One caller at a time."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk, self._path = disk, path
        self._marks: dict[ShardName, Offset] = {}
        self._size = self._lines = 0

    def load(self) -> Mapping[ShardName, Offset]:
        self._marks.clear()
        self._size = self._lines = 0
        if self._disk.exists(self._path):
            try:
                data = read_all(self._disk, self._path)
            except OSError as error:
                report_damage(f"{self._path}: {error}; watermarks are lost")
                return self._marks
            found = decode_lines(data)
            damaged = [*found.damaged, *_unended_line(data)]
            for at in damaged:
                report_damage(f"{self._path}: damaged at byte {at}; watermarks are lost")
            trusted = decode_lines(data[damaged[-1] :]).lines if damaged else found.lines
            for line in trusted:
                name, _, offset = line.rpartition(" ")
                self._marks[ShardName(name)] = Offset(int(offset))
            if not damaged:  # else the next save writes the whole file again
                self._size, self._lines = found.end, len(found.lines)
        return self._marks

    def save(self, marks: Mapping[ShardName, Offset], exists: Callable[[ShardName], bool]) -> None:
        self._marks.update(marks)
        if self._lines and self._lines + len(marks) <= len(self._marks) + LINES_SPARE:
            data = encode_lines(f"{name} {mark}" for name, mark in marks.items())
            file = self._disk.open(self._path)
            if file.size() > self._size:  # a line that a crash has torn
                file.truncate(self._size)
            file.write([data], self._size, durable=True)
            self._size += len(data)
            self._lines += len(marks)
            return
        self._marks = {name: mark for name, mark in self._marks.items() if exists(name)}
        data = encode_lines(f"{name} {mark}" for name, mark in sorted(self._marks.items()))
        replace_file(self._disk, self._path, data)
        self._size, self._lines = len(data), len(self._marks)


def _unended_line(data: bytes) -> list[int]:
    """Where the last line begins if only its line feed is damaged. A crash tears off more."""
    start = data.rfind(b"\n") + 1
    return [start] if decode_lines(data[start:-1] + b"\n").lines else []
