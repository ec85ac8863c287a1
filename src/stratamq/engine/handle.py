"""A shard that was found once and is used many times.

Fronts ask for a handle when they first meet a topic's partition, and keep it until the metadata of
either changes. Calls on it go straight to the shard: nothing is looked up, and most of them answer
at once. They belong to the event loop, except for `accept`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from asyncio import Future
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from stratamq.engine.contract import (
    AcceptedBatch,
    Acks,
    AppendResult,
    Done,
    FetchResult,
    Unsubscribe,
)
from stratamq.model.counters import TopicTraffic
from stratamq.model.shard import ShardOffsets
from stratamq.model.transaction import AbortedTxn
from stratamq.model.types import LeaderEpoch, NodeId, Offset, ShardName
from stratamq.wire.kafka.records import Buffer, Scratch


class Local(NamedTuple):
    """This node leads, under this epoch; None where the Meta Service does not count epochs."""

    epoch: LeaderEpoch | None = None


class Remote(NamedTuple):
    """Another node leads; None where none does just now."""

    node: NodeId | None


class ShardPosition(NamedTuple):
    """Where a shard stands, all at one moment. `stored_bytes` counts what was appended since the
    shard was opened: the difference between two of them is what a waiting consumer could read in
    addition."""

    offsets: ShardOffsets
    last_stable: Offset
    stored_bytes: int


class ShardHandle(ABC):
    """Every call raises ShardNotFound once the shard was deleted.

    `leader` is as the Meta Service had it when the handle was made. `answers_at_once` is False for
    storages that are not ours: `refresh` has to be awaited there before any offset is asked for.
    """

    name: ShardName
    leader: Local | Remote = Local()
    answers_at_once = True
    traffic = TopicTraffic()
    """What is sent to consumers counts here. Storages that are not ours have one for all."""

    async def refresh(self) -> None:
        """Learn the offsets, where they are not known here."""
        return

    # -- where it stands -----------------------------------------------------------------------

    @abstractmethod
    def offsets(self) -> ShardOffsets: ...

    @abstractmethod
    def last_stable(self) -> Offset:
        """The first offset of which it is not decided yet whether it counts; where all is decided,
        the high watermark."""

    @abstractmethod
    def local_start(self) -> Offset:
        """What is below it is on object storage only."""

    def bytes_from(self, offset: Offset) -> int | None:
        """At most so many bytes are stored from `offset` on; None where that is not known without
        asking a disk."""
        return None

    @abstractmethod
    def position(self) -> ShardPosition: ...

    @abstractmethod
    def subscribe(self, callback: Callable[[], None]) -> Unsubscribe:
        """Call back on the event loop whenever start or high watermark may have moved, and when the
        shard is deleted. The callback must be quick: writers wait for it."""

    # -- writing -------------------------------------------------------------------------------

    @abstractmethod
    def accept(
        self, data: Buffer, decompressed_max: int, scratch: Scratch | None = None
    ) -> Buffer | AcceptedBatch:
        """The part of `append` that takes long: every record is looked at. It may be called in any
        thread. BatchTooLarge when the records are more than `decompressed_max` bytes unpacked."""

    @abstractmethod
    def append(self, data: Buffer | AcceptedBatch, acks: Acks | None, done: Done) -> None:
        """Hand a batch over. What is wrong with it is raised at once, and `done` is not called
        then. Batches are stored in the order of the calls. `acks` None: what the topic's
        `commit.policy` says."""

    # -- reading -------------------------------------------------------------------------------

    @abstractmethod
    def fetch_at_once(
        self, offset: Offset, bytes_max: int, position: ShardPosition, *, stable: bool
    ) -> FetchResult | None:
        """As `fetch`, where the batches are in memory and nothing in them is hidden from consumers;
        None otherwise. `position` is the shard's at this moment, `offset` lies within it; with
        `stable`, the last stable offset is the end."""

    @abstractmethod
    async def fetch(self, offset: Offset, bytes_max: int, end: Offset | None = None) -> FetchResult:
        """Batches for a consumer, never past the high watermark, nor past `end`."""

    @abstractmethod
    def aborted(self, start: Offset, end: Offset) -> list[AbortedTxn]:
        """Those that may have records in `start..end - 1`, by the offsets of their marks."""

    @abstractmethod
    def end_of_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """The largest known epoch <= `epoch`, and where it ends; (-1, -1) when there is none."""


async def append_batch(
    shard: ShardHandle, data: Buffer | AcceptedBatch, acks: Acks | None
) -> AppendResult:
    """`append` for a caller that waits."""
    future: Future[AppendResult] = asyncio.get_running_loop().create_future()
    shard.append(data, acks, partial(settle, future))
    return await future


def settle(future: Future[AppendResult], answer: AppendResult | BaseException) -> None:
    """A caller that gave up gets no answer; what it asked for was done all the same."""
    if future.done():
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)
