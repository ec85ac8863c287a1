"""The body of an HTTP answer, as it comes in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from stratamq.tiering.stores.deadline import Deadline

PIECE_BYTES = 1 << 20


class Body(Protocol):
    def read1(self, amt: int, /) -> bytes: ...


def pieces(body: Body, deadline: Deadline) -> Iterator[bytes]:
    """`read1` returns what there is. `read` would wait for the whole piece, with the deadline
    passing unseen while bytes trickle in."""
    while piece := body.read1(PIECE_BYTES):
        deadline.check()
        yield piece
