"""What differs between stores: a few blocking calls, made from several threads at once.

A backend tries once. It raises StoreError's children and nothing else (OSError never gets out); the
`Store` above it tries again, checks sums and bounds concurrency.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from stratamq.tiering.stores.contract import Page
from stratamq.tiering.stores.deadline import Deadline
from stratamq.tiering.stores.source import UploadSource


class Tags(NamedTuple):
    """What is stored beside an object. The token tells who put it: no two puts share one."""

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
        """How much of an object is best read at a time, when all of it is."""

    def put(self, key: str, source: UploadSource, tags: Tags, *, if_absent: bool) -> None:
        """Whole or not at all, and durable."""

    def head(self, key: str) -> Head: ...

    def read(self, key: str, start: int, stop: int, deadline: Deadline) -> bytes:
        """Those bytes, or fewer if the object ends before: then it is not what it should be."""

    def list_page(self, prefix: str, after: str, limit: int) -> Page: ...

    def delete(self, key: str) -> None: ...

    def sweep(self, before_ms: int) -> int: ...

    def close(self) -> None: ...


@runtime_checkable
class PartsBackend(Backend, Protocol):
    """A backend that takes large objects in parts, several at a time, each tried on its own."""

    def begin(self, key: str, tags: Tags) -> str:
        """The new upload's id. Nothing is seen of it before `finish`."""

    def part(self, key: str, upload: str, number: int, source: UploadSource) -> str:
        """A receipt for the part, which `finish` asks for. Numbers begin with 1."""

    def finish(self, key: str, upload: str, receipts: Sequence[str], *, if_absent: bool) -> None:
        """ObjectNotFound if there is no such upload (any more)."""

    def abort(self, key: str, upload: str) -> None: ...
