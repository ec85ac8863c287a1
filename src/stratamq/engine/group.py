"""Requests to append, what one commit brings to each shard, and the commit itself."""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

from stratamq.engine.commit import answer
from stratamq.engine.contract import AppendResult, Done
from stratamq.engine.producers import shard as shard_producers
from stratamq.engine.producers.rules import StoredBatch
from stratamq.engine.producers.table import Draft
from stratamq.engine.shard import Shard
from stratamq.log.contract import PlacedBatch, ShardStore, Step
from stratamq.model.errors import NotLeader, OffsetNotConsecutive, ShardPoisoned, StrataError
from stratamq.model.types import (
    NO_EPOCH,
    NO_OFFSET,
    NO_TIMESTAMP,
    LeaderEpoch,
    Offset,
    TimestampMs,
)
from stratamq.wire.kafka.records import BatchHeader, BatchScan, Buffer, move_batch, place_batch
from stratamq.wire.kafka.records.layout import LENGTH_END

logger = logging.getLogger(__name__)

RECORD_BYTES = 32
"""What a record takes at least while it is written: its rows of the index. A compressed batch of a
few bytes may have a million of them."""


class Append:
    """A valid batch on its way into a shard. Its answer is its own offsets, or why there are
    none: its future's result, or what `done` is called with on the event loop."""

    __slots__ = (
        "answer",
        "data",
        "done",
        "epoch",
        "future",
        "header",
        "scan",
        "shard",
        "size_bytes",
    )

    def __init__(
        self,
        shard: Shard,
        header: BatchHeader,
        data: Buffer,
        scan: BatchScan,
        epoch: LeaderEpoch | None,
    ) -> None:
        self.shard = shard
        self.header = header
        self.data = data
        self.scan = scan
        self.epoch = epoch
        self.size_bytes = max(len(data), header.record_count * RECORD_BYTES)
        self.answer: AppendResult | BaseException | None = None
        self.future: Future[AppendResult] | None = None
        self.done: Done | None = None


class AppendReplica:
    """A leader's batches, which have their places already."""

    __slots__ = ("answer", "batches", "future", "shard", "size_bytes")

    def __init__(self, shard: Shard, batches: Sequence[PlacedBatch]) -> None:
        self.shard = shard
        self.batches = batches
        self.size_bytes = sum(batch.header.size_bytes for batch in batches)
        self.answer: AppendResult | BaseException | None = None
        self.future: Future[AppendResult] | None = None


class Group:
    """All batches that one commit brings to one shard, in order, with their final offsets.

    The engine's `commit` stores `batches` in `store` and makes them durable when `shard.syncs`, or
    sets `error`. Only then is anything of it answered or seen.
    """

    __slots__ = (
        "batches",
        "draft",
        "end",
        "epoch",
        "error",
        "members",
        "now_ms",
        "saves_producers",
        "shard",
        "start",
        "store",
    )

    def __init__(self, shard: Shard, now_ms: TimestampMs) -> None:
        self.shard = shard
        self.store: ShardStore = shard.store
        self.now_ms = now_ms
        self.batches: list[PlacedBatch] = []
        self.members: list[Append | AppendReplica] = []
        self.error: BaseException | None = None
        self.draft: Draft | None = None
        """What the batches change in the table of producers."""
        self.saves_producers = False
        """Whether it is time to save them: a writer does that after the commit."""
        self.start, self.end = self.store.start_offset, self.store.end_offset
        self.epoch = shard.epoch

    def add(self, request: Append | AppendReplica) -> None:
        """Give the request its offsets, after those before it; a refusal concerns it alone."""
        shard = self.shard
        try:
            if shard.gone or shard.poisoned:
                shard.check_writable()
            if isinstance(request, Append):
                request.answer = self.place(request)
            else:
                request.answer = self.take(request.batches)
        except StrataError as error:
            request.answer = error
        else:
            self.members.append(request)

    def place(self, request: Append) -> AppendResult:
        shard, base = self.shard, self.end
        epoch = self.epoch if request.epoch is None else request.epoch
        if epoch < self.epoch:
            raise NotLeader(f"{shard.name}: epoch {epoch} is over, {self.epoch} has begun")
        if request.header.producer_id >= 0:
            repeated = self._drafted().admit(request.header, request.data)
            if repeated is not None:
                return self._answer_again(repeated)
        scan, stamp = request.scan, self.now_ms if shard.stamps else None
        if stamp is None and scan.max_timestamp == request.header.max_timestamp:
            header, parts = move_batch(request.header, request.data, base, epoch)
        else:
            header, parts = place_batch(
                request.header, request.data, base, epoch, stamp, scan.max_timestamp
            )
        self.batches.append(PlacedBatch(header, parts, scan))
        if header.producer_id >= 0:
            self._drafted().add(header, request.data)
        self.epoch = epoch
        self.end = end = Offset(base + header.last_offset_delta + 1)
        time = NO_TIMESTAMP if stamp is None else stamp
        return AppendResult(base, Offset(end - 1), time, self.start)

    def take(self, batches: Sequence[PlacedBatch]) -> AppendResult:
        """Batches of a leader. An empty log begins wherever they do."""
        first = batches[0].header.base_offset
        empty = not self.batches and self.store.start_offset == self.store.end_offset
        restarts = empty and first != self.end
        self._check_continuous(batches, first if restarts else self.end)
        self._check_epochs(batches, NO_EPOCH if restarts else self.epoch)
        if restarts:
            self._restart(first)
        self.batches.extend(batches)
        for header, parts, _ in batches:
            if header.producer_id >= 0:
                self._drafted().add(header, parts[0])
        self.epoch = max(self.epoch, batches[-1].header.leader_epoch)
        self.end = batches[-1].header.next_offset
        return AppendResult(first, Offset(self.end - 1), NO_TIMESTAMP, self.start)

    def _answer_again(self, batch: StoredBatch) -> AppendResult:
        """What was answered when the batch came first."""
        _, _, base, last, timestamp = batch
        time = timestamp if self.shard.stamps else NO_TIMESTAMP
        return AppendResult(base, last, time, self.start)

    def _drafted(self) -> Draft:
        if self.draft is None:
            self.draft = self.shard.producers.draft(self.now_ms)
        return self.draft

    def _restart(self, start: Offset) -> None:
        """The leaders and producers of the log before are forgotten with it."""
        self.shard.begin_anew()
        self.draft = None
        shard_producers.forget_above(self.store, NO_OFFSET)
        self.store.restart(start)
        self.start = start
        self.shard.learn_epoch()
        self.shard.learn_producers()
        self.epoch = self.shard.epoch

    def _check_continuous(self, batches: Sequence[PlacedBatch], expected: Offset) -> None:
        """Where a leader's log has gaps, because all records of a batch were deleted and compacted
        away, its followers have them too. Nothing goes back."""
        for header, _, _ in batches:
            base = header.base_offset
            if base < expected:
                raise OffsetNotConsecutive(
                    f"{self.shard.name}: a batch at {base} does not continue the log at {expected}"
                )
            expected = header.next_offset

    def _check_epochs(self, batches: Sequence[PlacedBatch], epoch: LeaderEpoch) -> None:
        """Leaders follow one another: what an earlier one wrote comes before, or is not of this
        log."""
        for header, _, _ in batches:
            if 0 <= header.leader_epoch < epoch:
                raise NotLeader(
                    f"{self.shard.name}: a batch of epoch {header.leader_epoch} came after {epoch}"
                )
            epoch = max(epoch, header.leader_epoch)

    def settle(self) -> None:
        """After the commit, on the writer's thread: answer those who failed with it."""
        if self.error is None:
            self.shard.epoch = self.epoch
            producers = self.shard.producers
            if self.draft is not None:
                self.draft.commit(self.shard.committed())
                producers.changed()
            producers.unsaved_batches += len(self.batches)
            for header, _, _ in self.batches:
                producers.unsaved_bytes += header.batch_length  # near enough
            self.saves_producers = (
                producers.unsaved_bytes >= shard_producers.SNAPSHOT_BYTES
                or producers.unsaved_batches >= shard_producers.SNAPSHOT_BATCHES
            ) and producers.is_due()
            return
        if isinstance(self.error, ShardPoisoned):
            self.shard.poison = str(self.error)
        for request in self.members:
            request.answer = self.error

    def publish(self) -> None:
        """After the commit, on the event loop: readers may see it."""
        if self.error is None and self.batches:
            shard = self.shard
            traffic = shard.traffic
            for request in self.members:
                shard.stored_bytes += request.size_bytes
            for header, _, _ in self.batches:
                traffic.records_in += header.record_count
                traffic.bytes_in += header.batch_length + LENGTH_END
            if due := shard.commits.stored(self.end):
                answer(due)
            if shard.watchers and not shard.replicated:
                shard.moved()


class Commit(Protocol):
    """As `ShardStorage.commit`."""

    def __call__(self, groups: Sequence[Group], *, waits: bool = True) -> Step | None: ...


_BATCHES = attrgetter("batches")


def commit_all(
    requests: Sequence[Append | AppendReplica],
    now_ms: TimestampMs,
    commit: Commit,
    *,
    waits: bool = True,
) -> tuple[list[Group], Step | None]:
    """Group the requests by shard, in the order they came, and commit the groups that have batches.
    Whatever goes wrong is the answer of those it concerns. The step that is returned is to be done
    before anything is answered."""
    groups: dict[Shard, Group] = {}
    for request in requests:
        group = groups.get(request.shard)
        if group is None:
            group = groups[request.shard] = Group(request.shard, now_ms)
        group.add(request)
    gathered = list(groups.values())
    full = list(filter(_BATCHES, gathered))
    left = None
    try:
        if full:
            left = commit(full, waits=waits)
    except Exception as error:
        for group in full:
            group.error = group.error or error
    if left is not None:
        return gathered, partial(_finish, full, left)
    for group in full:
        group.settle()
    return gathered, None


def _finish(groups: Sequence[Group], left: Step) -> None:
    left()
    for group in groups:
        group.settle()


def save_producers(shards: Iterable[Shard]) -> None:
    """As their writer, on a thread that may wait for a disk."""
    for shard in shards:
        if not shard.poisoned and shard.producers.is_due():
            shard.producers.save(shard.store)


def answer_request(request: Append | AppendReplica) -> None:
    """Answer a request that was committed or failed, on the event loop."""
    if not isinstance(request, Append) or request.done is None:
        answer_future(request.future, request.answer)
        return
    assert request.answer is not None, "a commit answers every request"
    try:
        request.done(request.answer)
    except Exception:  # the caller's own, and others wait for their answers
        logger.exception("%s: a producer failed at its answer", request.shard.name)


def answer_future(future: Future[Any] | None, answer: Any) -> None:
    """A caller that gave up gets no answer; what it asked for was done all the same."""
    if future is None or future.done():
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)
