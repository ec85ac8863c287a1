"""Where a shard begins and ends, and where its keys and tags are: the part of reading that is the
same for segment files and for RocksDB, whose key and tag rows are the same."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

from stratamq.log.contract import HasBase
from stratamq.log.index import ShardIndex
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset, ShardName

by_base = attrgetter("base")


class HasEnds(HasBase, Protocol):
    @property
    def end(self) -> Offset: ...


S = TypeVar("S", bound=HasEnds)


class IndexedReads(Generic[S]):
    """Needs no lock: the segments are a tuple that the writing half replaces whole."""

    __slots__ = ("_index", "_offloaded", "_segments", "_start", "config", "name")

    name: ShardName
    config: TopicConfig
    _index: ShardIndex
    _segments: tuple[S, ...]
    _start: Offset
    _offloaded: Offset
    """Everything below it was offloaded, or trimmed."""

    @property
    def start_offset(self) -> Offset:
        return self._start

    @property
    def local_start(self) -> Offset:
        return max(self._start, self._offloaded)

    @property
    def end_offset(self) -> Offset:
        return self._segments[-1].end

    @property
    def lasting_end(self) -> Offset:
        return self.end_offset

    def offsets_by_key(self, key: bytes, end: Offset) -> Iterator[Offset] | None:
        return self._by_key(key, end) if self.config.flag("index.key") else None

    def _by_key(self, key: bytes, end: Offset) -> Iterator[Offset]:
        for segment in reversed(self._segments):
            if segment.base >= end:
                continue
            for offset in self._index.by_key(segment.base, key):
                if self._start <= offset < end:
                    yield offset

    def offsets_by_tag(self, tag: bytes, start: Offset, end: Offset) -> Iterator[Offset] | None:
        return self._by_tag(tag, start, end) if self.config.flag("index.tag") else None

    def _by_tag(self, tag: bytes, start: Offset, end: Offset) -> Iterator[Offset]:
        for segment in self._segments:
            if segment.end <= start:
                continue
            for offset in self._index.by_tag(segment.base, tag, max(start, self._start)):
                if offset >= end:
                    return
                yield offset
