"""The Meta Service's state in etcd: the rows of `meta.store`, under a prefix.

Only the elected meta node writes. Its fence, the revision at which its election key was made, is
compared in every transaction: a node that was stopped for longer than its lease, and does not know
yet that another was elected, changes nothing any more.

etcd takes 128 changes in a transaction, and a megabyte or so. A larger write is a *journal*:

    step                                                   after a crash in it, the next `open`
    1  parts `!part/NNNNNN`, each some changes as JSON      removes them: nothing has happened
    2  one transaction: `!journal` with their number, and   finishes it: all has happened, or
       the new revision                                     removes the parts
    3  the changes themselves, some at a time               makes all of them again
    4  `!journal` and the parts removed                     likewise

So a reader that finds `!journal` applies the parts before it believes the rows.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence

from stratamq.meta.etcd.api import EtcdApi
from stratamq.meta.evolve import restored
from stratamq.meta.rows import dump, parse
from stratamq.meta.state import Event, MetaState, Put
from stratamq.meta.store import FORMAT_KEY, REVISION_KEY, entity_of, row_key, row_value
from stratamq.model.errors import Closed, StorageError

JOURNAL_KEY = b"!journal"
PART_PREFIX = b"!part/"
PARTS_END = b"!part0"
FIRST_ENTITY = b'"'
"""Keys of entities come after those that begin with `!`."""
END = b"\xff"

CHANGES_MAX = 100
"""In one transaction, beside those that it always has."""
BYTES_MAX = 512 << 10
PAGE_ROWS = 5_000

Change = tuple[bytes, bytes | None]
"""A key with its new value; None: it is gone."""


class NotElected(StorageError):
    """Another meta node was elected meanwhile, or none: this one may not write any more."""


class Fence:
    """What a meta node holds while it is elected: the key of its election, and when it was made."""

    def __init__(self, key: bytes, revision: int) -> None:
        self.key, self.revision = key, revision


class EtcdMetaStore:
    """MetaStore. `fence` is the caller's election; see the module."""

    def __init__(self, api: EtcdApi, fence: Fence) -> None:
        self._api, self._fence = api, fence
        self._is_open = False

    def open(self) -> MetaState:
        """Also finishes, or takes back, what a crash of the last elected node cut short."""
        self._is_open = True
        own = dict(self._rows(b"!", FIRST_ENTITY))
        if FORMAT_KEY not in own:
            self._change([(FORMAT_KEY, dump({"format": "stratamq meta"}))])
        else:
            parse(FORMAT_KEY, own[FORMAT_KEY])
        if JOURNAL_KEY in own:
            self._finish(_changes_of(own))
        elif any(key.startswith(PART_PREFIX) for key in own):
            self._fenced([self._api.delete(PART_PREFIX, PARTS_END)])
        else:
            self._fenced([])  # what is read below counts only if nobody else was elected before
        found = self._rows(FIRST_ENTITY, END)
        revision = own.get(REVISION_KEY)
        at = int(parse(REVISION_KEY, revision)["revision"]) if revision else 0
        return restored((entity_of(*row) for row in found), at)

    def write(self, events: Sequence[Event], revision: int) -> None:
        if not self._is_open:
            raise Closed("the meta store is closed")
        changes: list[Change] = [
            (row_key(one.entity), row_value(one.entity) if isinstance(one, Put) else None)
            for one in events
        ]
        moved: Change = (REVISION_KEY, dump({"revision": revision}))
        pieces = list(_pieces(changes))
        if len(pieces) <= 1:
            self._change([*changes, moved])
            return
        for number, piece in enumerate(pieces):
            self._change([(PART_PREFIX + b"%06d" % number, _encoded(piece))])
        self._change([(JOURNAL_KEY, dump({"parts": len(pieces)})), moved])
        self._finish(pieces)

    def close(self) -> None:
        self._is_open = False

    # -- steps -----------------------------------------------------------------------------------

    def _finish(self, pieces: Sequence[Sequence[Change]]) -> None:
        for piece in pieces:
            self._change(piece)
        api = self._api
        self._fenced([api.delete(JOURNAL_KEY), api.delete(PART_PREFIX, PARTS_END)])

    def _change(self, changes: Sequence[Change]) -> None:
        api = self._api
        # A key may occur twice, and etcd takes each once: the last counts.
        newest = dict(changes)
        self._fenced(
            [
                api.delete(key) if value is None else api.put(key, value)
                for key, value in newest.items()
            ]
        )

    def _fenced(self, operations: Sequence[object]) -> None:
        held = self._api.created_at(self._fence.key, self._fence.revision)
        if not self._api.change([held], operations):  # type: ignore[arg-type]
            raise NotElected("this node is not the elected meta node any more")

    def _rows(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All of one revision, page by page."""
        revision = 0
        while True:
            rows, read_at = self._api.page(begin, end, PAGE_ROWS, revision)
            yield from rows
            if len(rows) < PAGE_ROWS:
                return
            revision, begin = revision or read_at, rows[-1][0] + b"\x00"


def _pieces(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Each small enough for a transaction."""
    piece: list[Change] = []
    size_bytes = 0
    for change in changes:
        change_bytes = len(change[0]) + len(change[1] or b"")
        if piece and (len(piece) >= CHANGES_MAX or size_bytes + change_bytes > BYTES_MAX):
            yield piece
            piece, size_bytes = [], 0
        piece.append(change)
        size_bytes += change_bytes
    if piece:
        yield piece


def _encoded(piece: Sequence[Change]) -> bytes:
    rows = [
        (base64.b64encode(key).decode(), None if value is None else value.decode())
        for key, value in piece
    ]
    return json.dumps(rows).encode()


def _changes_of(own: dict[bytes, bytes]) -> list[list[Change]]:
    """The parts of a journal; StorageError when they are not all there."""
    parts = [own[key] for key in sorted(own) if key.startswith(PART_PREFIX)]
    if len(parts) != parse(JOURNAL_KEY, own[JOURNAL_KEY])["parts"]:
        raise StorageError(f"etcd: {len(parts)} parts of a journal are there, some are missing")
    return [
        [
            (base64.b64decode(key), None if value is None else value.encode())
            for key, value in json.loads(part)
        ]
        for part in parts
    ]
