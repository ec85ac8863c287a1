"""What an object store promises, whichever it is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from stratamq.tiering.stores.sums import Sums

Pace = Callable[[int], None]
"""Called from a thread before that many bytes are sent. It may sleep, which limits the bandwidth,
and it may count, which shows progress. What it raises ends the upload."""

PAGE_KEYS_MAX = 1000


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What is known of an object without reading it. `sums` is None if somebody else wrote it."""

    key: str
    size: int
    modified_ms: int
    sums: Sums | None

    @property
    def crc32c(self) -> int | None:
        return self.sums.crc32c if self.sums else None


class Listed(NamedTuple):
    key: str
    size: int
    modified_ms: int


class Page(NamedTuple):
    """Part of a listing, in the order of the keys' bytes. `more`: go on after the last key."""

    objects: tuple[Listed, ...]
    more: bool


class ObjectStore(Protocol):
    """Keys to immutable bytes.

    - A put is whole or not at all: nobody sees half an object, and after an error there is the old
      one, the new one or none. When it returns, the object survives a power cut of the store.
    - No wrong byte is returned: what was stored with its sums is checked against them.
    - Every call may be repeated. Failures that may pass are tried again, with jitter, and in the
      end are StoreUnavailable; the others (ObjectNotFound, ObjectExists, StoreDenied) come at once.
    - Cancelling a call does not stop a request that is already on its way.

    Nothing here relies on a listing being up to date, and no caller should.
    """

    async def put(self, key: str, data: bytes, *, if_absent: bool = False) -> ObjectInfo:
        """Store `data`. With `if_absent`, ObjectExists if there is an object already."""

    async def put_file(
        self, key: str, path: Path, *, if_absent: bool = False, pace: Pace | None = None
    ) -> ObjectInfo:
        """Store a local file, in parts if it is large. It must not change meanwhile."""

    async def head(self, key: str) -> ObjectInfo: ...

    async def get_range(
        self, key: str, start: int, stop: int, *, info: ObjectInfo | None = None
    ) -> bytes:
        """The bytes from `start` up to `stop` or the end. With `info` the store need not be asked
        for it first."""

    def stream(
        self, key: str, start: int = 0, stop: int | None = None, *, info: ObjectInfo | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The same, piece by piece, one of them read ahead."""

    async def list_page(
        self, prefix: str = "", *, after: str = "", limit: int = PAGE_KEYS_MAX
    ) -> Page: ...

    def list(self, prefix: str = "") -> AsyncIterator[Listed]: ...

    async def delete(self, key: str) -> None:
        """Gone when it returns, whether or not it was there."""

    async def sweep(self, before_ms: int) -> int:
        """Remove what uploads begun before then and never ended left behind; how many it was."""

    async def close(self) -> None: ...
