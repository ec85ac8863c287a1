"""The handle of a shard that is stored here, and the checks of what is to be written to it.

What comes in is checked in the caller, before it is queued: bad input never gets further.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from stratamq.engine.contract import (
    AcceptedBatch,
    Acks,
    AppendResult,
    Done,
    FetchResult,
    Unsubscribe,
)
from stratamq.engine.group import Append, AppendReplica
from stratamq.engine.handle import Local, Remote, ShardHandle, ShardPosition
from stratamq.engine.shard import Shard
from stratamq.log import epochs as epoch_history
from stratamq.log.contract import PlacedBatch
from stratamq.model.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    NotLeader,
    ShardNotFound,
    StrataError,
)
from stratamq.model.record import Record
from stratamq.model.settings.topic import Flush
from stratamq.model.shard import ShardOffsets
from stratamq.model.transaction import AbortedTxn
from stratamq.model.types import NO_EPOCH, NO_OFFSET, LeaderEpoch, Offset, TimestampMs
from stratamq.wire.kafka.records import (
    EMPTY_SCAN,
    BatchHeader,
    Buffer,
    Scratch,
    accept_batch,
    accept_plain,
    check_crc,
    encode_batch,
    iter_batches,
    read_header,
    scan_batch,
)
from stratamq.wire.kafka.records.layout import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
)
from stratamq.wire.kafka.records.rewrite import as_create_time

if TYPE_CHECKING:
    from stratamq.engine.engine import StorageEngine


class EngineShard(ShardHandle):
    """See ShardHandle. Where another node leads, `append` refuses."""

    def __init__(self, engine: StorageEngine, shard: Shard, leader: Local | Remote) -> None:
        self.name, self.leader = shard.name, leader
        self._engine, self._shard, self.traffic = engine, shard, shard.traffic
        self._epoch = leader.epoch if isinstance(leader, Local) else NO_EPOCH

    def _live(self) -> Shard:
        shard = self._shard
        if shard.gone:
            raise ShardNotFound(f"shard {self.name} was deleted")
        return shard

    # -- where it stands -----------------------------------------------------------------------

    def offsets(self) -> ShardOffsets:
        return self._live().offsets()

    def last_stable(self) -> Offset:
        return self._live().last_stable()

    def local_start(self) -> Offset:
        return self._live().store.local_start

    def bytes_from(self, offset: Offset) -> int | None:
        return self._shard.store.active_bytes(offset)

    def position(self) -> ShardPosition:
        shard = self._shard if not self._shard.gone else self._live()
        offsets = shard.offsets()
        start, committed, _ = offsets
        transactions = shard.producers.table.transactions
        stable = transactions.last_stable(committed) if transactions.unstable else committed
        return ShardPosition(offsets, max(start, stable), shard.stored_bytes)

    def subscribe(self, callback: Callable[[], None]) -> Unsubscribe:
        return self._live().watch(callback)

    # -- writing -------------------------------------------------------------------------------

    def accept(
        self, data: Buffer, decompressed_max: int, scratch: Scratch | None = None
    ) -> AcceptedBatch:
        engine = self._engine
        limit = min(engine.limits.decompressed_bytes_max, decompressed_max)
        return accept(self._shard, data, limit, scratch, engine.clock.now_ms())

    def append(self, data: Buffer | AcceptedBatch, acks: Acks | None, done: Done) -> None:
        shard, engine = self._shard, self._engine
        if shard.gone or shard.poisoned:
            shard.check_writable()
        if isinstance(self.leader, Remote):
            raise NotLeader(f"node {self.leader.node} leads {self.name}")
        if shard.flush is Flush.INTERVAL and shard.flush_timer is None:
            engine.flush_later(shard)
        if not isinstance(data, AcceptedBatch):
            data = self.accept(data, engine.limits.decompressed_bytes_max)
        request = Append(shard, data.header, data.data, data.scan, self._epoch)
        if shard.replicated and acks not in (Acks.NONE, Acks.LEADER):
            done = partial(self._stored, acks or shard.policy, done)
        request.done = done
        engine.executor.begin(request)

    def _stored(self, acks: Acks, done: Done, answer: AppendResult | BaseException) -> None:
        """The batch is in this node's log, or was there before. It waits for its replicas."""
        if isinstance(answer, BaseException):
            done(answer)
            return
        end = Offset(answer.last_offset + 1)
        if self._shard.commits.wait(end, acks, lambda error: done(error or answer)) is None:
            done(answer)

    # -- reading -------------------------------------------------------------------------------

    def fetch_at_once(
        self, offset: Offset, bytes_max: int, position: ShardPosition, *, stable: bool
    ) -> FetchResult | None:
        shard = self._shard if not self._shard.gone else self._live()
        if shard.expires or shard.store.deleted():
            return None
        offsets, last_stable, _ = position
        end = last_stable if stable else offsets.high_watermark
        found = shard.store.read_at_once(offset, bytes_max, end)
        return None if found is None else FetchResult(*found, False, offsets)

    async def fetch(self, offset: Offset, bytes_max: int, end: Offset | None = None) -> FetchResult:
        self._live()
        return await self._engine.fetch_batches(self.name, offset, bytes_max, end)

    def aborted(self, start: Offset, end: Offset) -> list[AbortedTxn]:
        return self._live().producers.table.transactions.aborted.between(start, end)

    def end_of_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        store = self._live().store
        found = epoch_history.end_of_epoch(store.epochs(), epoch, store.end_offset)
        return found or (NO_EPOCH, NO_OFFSET)


async def committed(shard: Shard, end: Offset, acks: Acks | None) -> None:
    """Return when everything below `end` is as safe as `acks` asks for. Its error says that it may
    be lost; a caller that gives up does not undo it."""
    acks = shard.policy if acks is None else acks
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = shard.commits.wait(end, acks, partial(_settle, done))
    if waiting is None:
        return
    try:
        await done
    finally:
        shard.commits.forget(waiting)


def _settle(done: asyncio.Future[None], error: StrataError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


# -- what comes in ---------------------------------------------------------------------------------


def accept(
    shard: Shard,
    data: Buffer,
    decompressed_max: int,
    scratch: Scratch | None = None,
    now_ms: TimestampMs | None = None,
) -> AcceptedBatch:
    """A batch as a producer made it. Every record is walked: what does not add up must not be
    stored, since every later reader would fall over it.

    What the header says about timestamps is not believed: the largest is that of the records, and
    only the node says that they are the node's own. With `now_ms`, records must not be further in
    the future than the topic allows.
    """
    keys, tags, unpacked_bytes = shard.index_keys, shard.index_tags, 0
    plain = accept_plain(data, shard.bytes_max, keys, tags)
    if plain is not None:
        header, scan = plain
    else:
        header, scan, unpacked_bytes = accept_batch(
            data,
            shard.bytes_max,
            keys=keys,
            tags=tags,
            decompressed_max=decompressed_max,
            scratch=scratch,
        )
    if header.attributes & LOG_APPEND_TIME_BIT and not shard.stamps:
        return accept(shard, as_create_time(header, data), decompressed_max, scratch, now_ms)
    if header.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT):
        _check_transactional(header)
    if now_ms is not None and scan.max_timestamp - now_ms > shard.after_ms_max:
        raise InvalidTimestamp(now_ms + shard.after_ms_max, scan.max_timestamp)
    if scan.null_keys and shard.compacts:
        raise InvalidRecord(f"{shard.name}: a compacted topic takes no record without a key")
    return AcceptedBatch(data, header, scan, unpacked_bytes)


def from_batch(
    shard: Shard,
    data: Buffer | AcceptedBatch,
    epoch: LeaderEpoch | None,
    decompressed_max: int,
    scratch: Scratch | None = None,
    now_ms: TimestampMs | None = None,
) -> Append:
    """A batch as a producer made it, looked at now unless it was before."""
    if not isinstance(data, AcceptedBatch):
        data = accept(shard, data, decompressed_max, scratch, now_ms)
    return Append(shard, data.header, data.data, data.scan, epoch)


def from_records(
    shard: Shard, records: Sequence[Record], now_ms: TimestampMs, decompressed_max: int
) -> Append:
    """A batch made here. All records go into one, so that they are stored together or not at
    all."""
    data = encode_batch(records, now_ms=now_ms, compression=shard.compression)
    return from_batch(shard, data, None, decompressed_max)


def from_marker(shard: Shard, data: bytes, epoch: LeaderEpoch | None) -> Append:
    """A mark made here, on behalf of a coordinator."""
    header = read_header(data)
    scan = EMPTY_SCAN._replace(max_timestamp=header.max_timestamp)
    return Append(shard, header, data, scan, epoch)


def _check_transactional(header: BatchHeader) -> None:
    if header.is_control:
        raise InvalidRecord("producers do not write the marks that end their transactions")
    if header.producer_id < 0:
        raise InvalidRecord("a transaction needs a producer id")


def from_leader(shard: Shard, data: bytes, decompressed_max: int) -> AppendReplica:
    """A leader's batches, as `read_raw` gave them. They were accepted once: their size and the
    holes that compaction left in them are not ours to judge, damage on the way is."""
    batches = []
    for header, batch in iter_batches(data):
        if not check_crc(batch, header):
            raise CorruptBatch(f"the batch at offset {header.base_offset} does not match its CRC")
        indexed = not header.is_control
        scan = scan_batch(
            header,
            batch,
            keys=indexed and shard.index_keys,
            tags=indexed and shard.index_tags,
            decompressed_max=decompressed_max,
            consecutive=False,
        )
        batches.append(PlacedBatch(header, (bytes(batch),), scan))
    return AppendReplica(shard, batches)
