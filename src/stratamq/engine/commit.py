"""The commit protocol of one shard: what is committed, and which producer waits for what. Pure.

Everything here happens on the event loop. An event changes the state at once and returns the
producers that are to be answered because of it, with the error for those that failed.

| event               | log end   | high watermark          | producers that wait           |
|---------------------|-----------|-------------------------|-------------------------------|
| `stored(end)`       | `end`     | follows                 | acks=1 below `end`: done      |
| `copied(node, end)` | unchanged | follows                 | enough replicas have it: done |
| `lead(replicas)`    | unchanged | follows                 | enough replicas have it: done |
| `advance(offset)`   | unchanged | `offset`, if it is more | none: for followers only      |
| `hide(end)`         | unchanged | at most `end`           | none                          |
| `truncated(end)`    | `end`     | at most `end`           | above `end`: NotLeader        |
| `resign(error)`     | unchanged | unchanged               | all fail with `error`         |
| `forget(waiting)`   | unchanged | unchanged               | that one is not answered      |

A producer whose wait ends in an error, or that gives up, does not know whether its records are
stored: they are in the log, and may be committed later. It sends them again; an idempotent one is
then answered with the offsets of the first time, after the same wait.

How far the log is safe in the sense of each acks:

| acks     | up to                                                                               |
|----------|-------------------------------------------------------------------------------------|
| `1`      | the end of the leader's log                                                         |
| `quorum` | what a majority of the replica set has                                              |
| `all`    | what every replica in sync has; nothing while fewer than `isr_min` are in sync      |

The high watermark is how far the topic's own policy (`quorum` or `all`) has got. It never goes back
but by truncation. A shard without followers is its own majority and all that is in sync.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from stratamq.engine.contract import Acks
from stratamq.model.errors import NotLeader, StrataError
from stratamq.model.types import NO_OFFSET, NodeId, Offset

logger = logging.getLogger(__name__)

Committed = Callable[[StrataError | None], None]
"""Takes None when the producer's records are as safe as it asked for, or why they may not be."""


class Waiting(NamedTuple):
    """A producer that is answered when everything below `end` is safe."""

    end: Offset
    acks: Acks
    done: Committed


class Due(NamedTuple):
    """A producer that is to be answered now."""

    done: Committed
    error: StrataError | None


class Replicas(NamedTuple):
    """Who keeps a shard under one leader, as the Meta Service says. `followers` are all replicas
    but the leader; `in_sync` those of them that are in sync."""

    followers: frozenset[NodeId] = frozenset()
    in_sync: frozenset[NodeId] = frozenset()
    isr_min: int = 1
    policy: Acks = Acks.ALL


ALONE = Replicas()


class CommitProtocol:
    """See the module. `end` and `high_watermark` may be read at any time."""

    __slots__ = ("_copies", "_leads", "_replicas", "_waiting", "end", "high_watermark")

    def __init__(self, end: Offset, high_watermark: Offset, *, leads: bool) -> None:
        """Without `leads`, the shard follows another node until `lead` is called."""
        self.end, self.high_watermark = end, high_watermark
        self._leads = leads
        self._replicas = ALONE
        self._copies: Mapping[NodeId, Offset] = {}
        self._waiting: list[Waiting] = []

    # -- the log -------------------------------------------------------------------------------

    def stored(self, end: Offset) -> list[Due]:
        """The log of this node reaches to `end`, as durable as the topic asks for."""
        self.end = end
        if not self._leads:
            return []
        if not self._replicas.followers:
            self.high_watermark = end
            return self._due() if self._waiting else []
        return self._progress()

    def hide(self, end: Offset) -> None:
        """No reader is to get what is about to be cut. If it stays after all, `advance` brings the
        high watermark back."""
        self.high_watermark = min(self.high_watermark, end)

    def truncated(self, end: Offset) -> list[Due]:
        """The log was cut, or opened again with less in it, or begins again at `end`. Producers
        that waited for offsets that are gone have lost their records."""
        self.end = end
        self.high_watermark = min(self.high_watermark, end)
        if self._leads and not self._replicas.followers:
            self.high_watermark = end
        self._copies = {node: min(copied, end) for node, copied in self._copies.items()}
        lost = NotLeader("another leader has replaced these records")
        return self._fail([one for one in self._waiting if one.end > end], lost)

    # -- replicas ------------------------------------------------------------------------------

    def lead(self, replicas: Replicas) -> list[Due]:
        """This node leads, with these followers. What a follower has is known from its first
        fetch on; until then it counts as having nothing."""
        known = self._copies
        self._copies = {node: known.get(node, NO_OFFSET) for node in replicas.followers}
        self._replicas, self._leads = replicas, True
        return self._progress()

    def resign(self, error: StrataError) -> list[Due]:
        """Another node leads, or none."""
        self._leads, self._copies = False, {}
        return self._fail(self._waiting, error)

    def copied(self, node: NodeId, end: Offset) -> list[Due]:
        """A follower asks for what comes at `end`, so it has all below. One that was truncated
        has less than before."""
        if not self._leads or node not in self._copies:
            return []
        self._copies = {**self._copies, node: min(end, self.end)}
        return self._progress()

    def advance(self, offset: Offset) -> bool:
        """The leader's fetch response says how far it has committed. Whether that is news."""
        reached = min(offset, self.end)
        if reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True

    # -- producers -----------------------------------------------------------------------------

    def is_safe(self, end: Offset, acks: Acks) -> bool:
        return self._reached(acks) >= end

    def wait(self, end: Offset, acks: Acks, done: Committed) -> Waiting | None:
        """Have `done` called when everything below `end` is safe; None where it is already, and
        `done` is not called then."""
        if self._reached(acks) >= end:
            return None
        waiting = Waiting(end, acks, done)
        self._waiting.append(waiting)
        return waiting

    def forget(self, waiting: Waiting) -> None:
        """Its producer has given up, or its time is over. May be repeated."""
        self._waiting = [one for one in self._waiting if one is not waiting]

    # -- what follows from it ------------------------------------------------------------------

    def _reached(self, acks: Acks) -> Offset:
        replicas = self._replicas
        if acks in (Acks.NONE, Acks.LEADER):
            return self.end
        if acks is Acks.QUORUM:
            ends = sorted((self.end, *self._copies.values()))
            return ends[(len(ends) - 1) // 2]  # so many or more have it: a majority
        if 1 + len(replicas.in_sync) < replicas.isr_min:
            return NO_OFFSET
        return min((self.end, *_of(self._copies, replicas.in_sync)))

    def _progress(self) -> list[Due]:
        self.high_watermark = max(self.high_watermark, self._reached(self._replicas.policy))
        return self._due() if self._waiting else []

    def _due(self) -> list[Due]:
        safe = {acks: self._reached(acks) for acks in {one.acks for one in self._waiting}}
        due = [Due(one.done, None) for one in self._waiting if one.end <= safe[one.acks]]
        if due:
            self._waiting = [one for one in self._waiting if one.end > safe[one.acks]]
        return due

    def _fail(self, failed: list[Waiting], error: StrataError) -> list[Due]:
        gone = {id(one) for one in failed}
        self._waiting = [one for one in self._waiting if id(one) not in gone]
        return [Due(one.done, error) for one in failed]


def answer(due: Iterable[Due]) -> None:
    """Answer producers. What one of them does wrong is not the fault of the others."""
    for done, error in due:
        try:
            done(error)
        except Exception:
            logger.exception("a producer failed at its answer")


def _of(copies: Mapping[NodeId, Offset], nodes: Iterable[NodeId]) -> Iterable[Offset]:
    return (copies.get(node, NO_OFFSET) for node in nodes)
