"""What differs between stores: a few blocking calls, made from several threads at once.

A backend tries once. It raises StoreError's children and nothing else (OSError never gets out); the
`Store` above it tries again, checks sums and bounds concurrency.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from stratamq.tiering.stores.attempts import Deadline
from stratamq.tiering.stores.contract import Page
from stratamq.tiering.stores.source import UploadSource


class Tags(NamedTuple):
    """Stored with an object. The token identifies the put that stored it: no two puts share one."""

    sums: str
    token: str


class Head(NamedTuple):
    size: int
    modified_ms: int
    tags: Tags | None


REMOTE_WINDOW_BYTES = 4 << 20
"""Large enough that a request's own cost does not matter."""


class Backend(Protocol):
    @property
    def window_bytes(self) -> int:
        """How much to read at a time when a whole object is read."""

    def put(self, key: str, source: UploadSource, tags: Tags, *, if_absent: bool) -> None:
        """Store the object whole or not at all, and durably."""

    def head(self, key: str) -> Head: ...

    def read(self, key: str, start: int, stop: int, deadline: Deadline) -> bytes:
        """Read those bytes, or fewer if the object ends earlier, which callers report as
        corrupt."""

    def list_page(self, prefix: str, after: str, limit: int) -> Page: ...

    def delete(self, key: str) -> None: ...

    def sweep(self, before_ms: int) -> int: ...

    def close(self) -> None: ...


@runtime_checkable
class PartsBackend(Backend, Protocol):
    """A backend that takes large objects in parts, several at a time, each tried on its own."""

    def begin(self, key: str, tags: Tags) -> str:
        """Start an upload and return its id. No reader sees it before `finish`."""

    def part(self, key: str, upload: str, number: int, source: UploadSource) -> str:
        """Send a part and return its receipt, which `finish` needs. Numbers begin with 1."""

    def finish(self, key: str, upload: str, receipts: Sequence[str], *, if_absent: bool) -> None:
        """ObjectNotFound if there is no such upload (any more)."""

    def abort(self, key: str, upload: str) -> None: ...
