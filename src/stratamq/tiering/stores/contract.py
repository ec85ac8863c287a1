"""What an object store promises, whichever it is, and which keys its objects may have."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from stratamq.model.errors import InvalidName
from stratamq.tiering.stores.sums import Sums

Pace = Callable[[int], None]
"""Called from a thread before that many bytes are sent. It may sleep, which limits the bandwidth,
and it may count, which shows progress. What it raises ends the upload."""

PAGE_KEYS_MAX = 1000


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What is known of an object without reading it. `sums` is None if another program wrote it."""

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

    - A put is whole or not at all: no reader sees half an object, and after an error there is the
      old one, the new one or none. When it returns, the object survives a power cut of the store.
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
        """Read from `start` up to `stop` or the end. With `info` the store is not asked for it
        first."""

    def stream(
        self, key: str, start: int = 0, stop: int | None = None, *, info: ObjectInfo | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Read a range piece by piece; the next piece is read ahead."""

    async def list_page(
        self, prefix: str = "", *, after: str = "", limit: int = PAGE_KEYS_MAX
    ) -> Page: ...

    def list(self, prefix: str = "") -> AsyncIterator[Listed]: ...

    async def delete(self, key: str) -> None:
        """Delete the object. It is not an error if there is none."""

    async def sweep(self, before_ms: int) -> int:
        """Remove what uploads that began before then and never ended have left; return their
        number."""

    async def close(self) -> None: ...


KEY_BYTES_MAX = 900
"""S3 allows 1024, and a store's prefix comes before it."""
PART_BYTES_MAX = 200
"""A file system allows 255, and temporary names are a little longer."""

_PART = re.compile(r"[A-Za-z0-9_=+@,%~-][A-Za-z0-9._=+@,%~-]*")
_PREFIX = re.compile(r"[A-Za-z0-9._=+@,%~/-]*")


def checked_key(key: str) -> str:
    """The key itself, or InvalidName. No part begins with a dot: those names are the store's."""
    parts = key.split("/")
    if len(key) > KEY_BYTES_MAX or any(len(part) > PART_BYTES_MAX for part in parts):
        raise InvalidName(f"object key is too long: {key[:PART_BYTES_MAX]!r}...")
    if not all(_PART.fullmatch(part) for part in parts):
        raise InvalidName(f"object key {key!r} is not made of safe names with / between them")
    return key


def checked_prefix(prefix: str) -> str:
    """The beginning of a key, which may end in the middle of a name."""
    if len(prefix) > KEY_BYTES_MAX or not _PREFIX.fullmatch(prefix) or _climbs(prefix):
        raise InvalidName(f"no object key begins with {prefix[:PART_BYTES_MAX]!r}")
    return prefix


def _climbs(prefix: str) -> bool:
    """Whether it leaves the store, if read as a path."""
    return (
        prefix.startswith("/")
        or "//" in prefix
        or any(part.startswith(".") for part in prefix.split("/"))
    )
