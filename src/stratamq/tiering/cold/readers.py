"""Parquet files of history, open, with the parts of them that were unpacked last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from stratamq.lake.parquet.groups import RowGroup
from stratamq.lake.parquet.pages import Buffers
from stratamq.lake.parquet.sources import Span
from stratamq.meta.tier.files import TierFile, TierObject
from stratamq.model.errors import CorruptObject, CorruptRecord
from stratamq.tiering.cold.ahead import Ahead, Streams
from stratamq.tiering.cold.limits import ColdLimits
from stratamq.tiering.cold.objects import Objects
from stratamq.tiering.cold.shared import Shared
from stratamq.wire.kafka.records import walk

if TYPE_CHECKING:
    from stratamq.tiering.cold.open_file import OpenFile

T = TypeVar("T")
GroupKey = tuple[str, int]
"""An object's key, and the number of a row group in it."""


class ParquetReaders:
    """Reads of Parquet files, by any number of threads.

    Row groups that were opened are cached, in all within `memory_bytes`; readers at different
    places of a file, or of many, share them. For a reader that goes on, the rest of its row group
    and the next one are unpacked ahead, and `read_ahead_bytes` after them are fetched. When it
    goes away or jumps, that is all that was done in vain.
    """

    def __init__(self, objects: Objects, ahead: Ahead, limits: ColdLimits) -> None:
        self._objects, self._ahead, self._limits = objects, ahead, limits
        self._buffers = Buffers(limits.memory_bytes // 4)
        self._files: Shared[str, OpenFile] = Shared(lambda _: 1, limits.files_max)
        self._groups: Shared[GroupKey, RowGroup] = Shared(
            attrgetter("size_bytes"), limits.memory_bytes
        )
        self._streams: Streams[str, GroupKey] = Streams()

    def read(
        self, file: TierFile, offset: int, max_bytes: int, end: int, after: TierFile | None = None
    ) -> bytes:
        """Read as ColdFile.read does. `after` is the file that a reader who goes on comes to
        next."""

        def look(found: OpenFile) -> bytes:
            data, last = self._read(found, offset, max_bytes, end)
            if data and self._moves(found, last, offset, walk(data)[-1].last_offset + 1):
                self._look_ahead(found, last, after)
            self._groups.trim()
            return data

        return self._tried(file, look)

    def offsets_by_key(self, file: TierFile, key: bytes, end: int) -> Iterator[int]:
        """Yield offsets, newest first. A row group is read only when those after it were not
        enough."""

        def look(found: OpenFile, number: int) -> list[int]:
            return found.offsets_of_key(number, key, end)

        for number in reversed(range(self._tried(file, lambda found: len(found.places)))):
            yield from self._tried(file, partial(look, number=number))

    def offsets_by_tag(self, file: TierFile, tag: bytes, start: int, end: int) -> Iterator[int]:
        """Oldest first."""

        def look(found: OpenFile, number: int) -> list[int]:
            return found.offsets_of_tag(number, tag, start, end)

        for number in range(self._tried(file, lambda found: len(found.places))):
            yield from self._tried(file, partial(look, number=number))

    def floor_by_timestamp(self, file: TierFile, timestamp: int) -> int:
        return self._tried(file, lambda found: found.floor_by_timestamp(timestamp))

    def clear(self) -> None:
        self._groups.clear()
        self._files.clear()

    @property
    def size_bytes(self) -> int:
        """Memory that unpacked row groups take."""
        return self._groups.total

    def _tried(self, file: TierFile, work: Callable[[OpenFile], T]) -> T:
        """Report a wrong byte only if it is still wrong after everything was fetched again."""
        try:
            return work(self._open(file))
        except (CorruptRecord, CorruptObject):
            key = parquet_of(file).key
            self._files.drop(key)
            self._groups.drop_where(lambda one: one[0] == key)
            self._objects(parquet_of(file)).forget()
        return work(self._open(file))

    def _open(self, file: TierFile) -> OpenFile:
        target = parquet_of(file)
        return self._files.get(target.key, lambda: self._opened(target, file))

    @staticmethod
    def load() -> None:
        """What the first read would load. It takes a while."""
        import stratamq.tiering.cold.open_file  # noqa: F401

    def _opened(self, target: TierObject, file: TierFile) -> OpenFile:
        """Open a file. Imported here: a node whose history is not read has no need of pyarrow."""
        from stratamq.tiering.cold.open_file import OpenFile

        return OpenFile(self._objects(target), file, self._buffers)

    def _read(self, file: OpenFile, offset: int, max_bytes: int, end: int) -> tuple[bytes, int]:
        """Batches, and the number of the row group they end in."""
        parts: list[bytes] = []
        room, number = max_bytes, 0
        try:
            for number in range(file.number(offset), len(file.places)):
                found = self._group(file, number).read(offset, room, end, first=not parts)
                parts += found.parts
                room -= sum(map(len, found.parts))
                if not found.ended or room <= 0:
                    break
        except CorruptRecord:
            if not parts:
                raise
        return (parts[0] if len(parts) == 1 else b"".join(parts)), number

    def _group(self, file: OpenFile, number: int) -> RowGroup:
        return self._groups.get((file.name, number), lambda: file.group(number))

    def _moves(self, file: OpenFile, number: int, offset: int, end: int) -> bool:
        """Whether the reader goes on. A row group that the last reader has left is let go at once:
        often no reader comes back to it, and memory that was just used is much faster than new."""
        here = file.name, number
        before = self._streams.follow(file.shard, offset, end, here)
        if before != here:
            if (entered := self._groups.peek(here)) is not None:
                entered.visits += 1
            if before is not None and (left := self._groups.peek(before)) is not None:
                left.visits -= 1
                if left.visits <= 0:
                    self._groups.drop(before)
        return before is not None

    def _look_ahead(self, file: OpenFile, number: int, after: TierFile | None) -> None:
        """Read ahead, once per row group: the rest of it, the next one, and the bytes after
        that."""
        group = self._groups.peek((file.name, number))
        if group is None or group.is_ahead:
            return
        group.is_ahead = True
        if number + 1 < len(file.places):
            span = file.span(number + 1)
            file.source.expect(Span(span.position, span.size + self._limits.read_ahead_bytes))

        def unpack() -> None:
            group.unpack()
            if number + 1 < len(file.places):
                self._group(file, number + 1).unpack()
            elif after is not None and after.parquet is not None:
                following = self._open(after)
                self._group(following, 0).unpack()
            self._groups.trim()

        self._ahead.submit(unpack)


def parquet_of(file: TierFile) -> TierObject:
    assert file.parquet, "asked for only where there is one"
    return file.parquet
