"""What is checked in a producer's batch before it is stored, where, and how much of it.

Every record of a batch is checked. For most batches that takes less than a millisecond and is
done on the event loop. A batch of a few bytes may unpack to megabytes, though, and some topics have
each batch packed again: what takes long is done by a thread, one batch after the other.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from stratamq.broker.kafka.contract import Services
from stratamq.broker.kafka.errors import Refused
from stratamq.broker.kafka.partitions import ServedPartition
from stratamq.broker.kafka.produce import rules
from stratamq.broker.kafka.turns import NO_CLIENT, turns
from stratamq.engine.contract import AcceptedBatch
from stratamq.engine.handle import ShardHandle
from stratamq.model.errors import (
    BatchTooLarge,
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedFormat,
)
from stratamq.model.settings.topic import LONG_MAX
from stratamq.wire.kafka.protocol import Buffer, ErrorCode
from stratamq.wire.kafka.records import (
    HEADER_BYTES,
    BatchHeader,
    Compression,
    Scratch,
    read_header,
)
from stratamq.wire.kafka.records.layout import CODEC_MASK, CONTROL_BIT, LENGTH_END

if TYPE_CHECKING:
    from stratamq.broker.kafka.produce.api import Allowance

AT_ONCE_BYTES = (1 << 20) + (64 << 10)
"""What is checked on the event loop: the largest batch that is taken by default, as it came or
unpacked."""

PACKED_AT_ONCE_BYTES = AT_ONCE_BYTES // 4
"""A compressed batch above this most likely unpacks to more, and is not tried."""


ZSTD_SINCE = 7
"""Version of Produce; before it, consumers were not known to read zstd."""


class Batch(NamedTuple):
    """A batch that may be written as far as its header says, and where it goes."""

    partition: ServedPartition
    shard: ShardHandle
    header: BatchHeader
    data: Buffer


class BatchChecker:
    """Checks batches, one at a time per request. A batch that was checked elsewhere than on
    the event loop is as good as any other: `append_batch` takes both."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stratamq-batches")
        self.scratch, self._threads_scratch = Scratch(), Scratch()

    def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def check_at_once(self, batch: Batch, allowance: Allowance) -> Buffer | AcceptedBatch | None:
        """On the event loop; None where that would take long, or would come on top of much else."""
        allowance.count(batch.header)
        packed = batch.header.attributes & CODEC_MASK
        if len(batch.data) > (PACKED_AT_ONCE_BYTES if packed else AT_ONCE_BYTES):
            return None
        if not batch.partition.rules.are_plain and _is_unpacked_anyway(batch):
            return None
        if not packed:
            return batch.shard.accept(batch.data, AT_ONCE_BYTES, self.scratch)
        if turns().is_used_up:
            return None
        return self._check_packed(batch, allowance)

    def _check_packed(self, batch: Batch, allowance: Allowance) -> Buffer | AcceptedBatch | None:
        limit = min(AT_ONCE_BYTES, allowance.unpacked_bytes)
        began = time.perf_counter()
        try:
            accepted = batch.shard.accept(batch.data, limit, self.scratch)
        except BatchTooLarge:
            return None
        finally:
            turns().use(NO_CLIENT, time.perf_counter() - began)
        allowance.unpacked(accepted)
        return accepted

    async def check_by_thread(self, batch: Batch, allowance: Allowance) -> Buffer | AcceptedBatch:
        """By the thread. It was tried on the event loop before, and counted there."""
        loop = asyncio.get_running_loop()
        check = partial(self._check_in_thread, batch, allowance.unpacked_bytes)
        accepted = await loop.run_in_executor(self._thread, check)
        allowance.unpacked(accepted)
        return accepted

    def _check_in_thread(self, batch: Batch, limit: int) -> Buffer | AcceptedBatch:
        now_ms, held_to = self._services.clock.now_ms(), batch.partition.rules
        try:
            rules.check_timestamps(held_to, batch.header, batch.data, now_ms, limit)
            data = rules.compressed(held_to, batch.header, batch.data, limit)
            return batch.shard.accept(data, limit, self._threads_scratch)
        except (InvalidRecord, InvalidTimestamp) as error:
            raise rules.at_fault(batch.header, batch.data, error, limit) from None


def _is_unpacked_anyway(batch: Batch) -> bool:
    """Whether the topic asks for more than a check."""
    rules = batch.partition.rules
    return rules.before_ms != LONG_MAX or rules.codec not in (None, batch.header.compression)


def check_header(records: Buffer | None, version: int) -> tuple[BatchHeader, Buffer]:
    """Exactly one batch, of today's format, that a client may write."""
    if not records:
        raise _invalid("a partition without a batch")
    try:
        header = read_header(records)
    except UnsupportedFormat as error:
        raise _invalid(str(error)) from None
    if HEADER_BYTES <= header.batch_length + LENGTH_END < len(records):
        raise _invalid("more than one batch for a partition")
    if header.attributes & CONTROL_BIT:
        raise _invalid("only the transaction coordinator writes control records")
    if version < ZSTD_SINCE and header.compression is Compression.ZSTD:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return header, records


def _invalid(why: str) -> Refused:
    return Refused(ErrorCode.INVALID_RECORD, why)


def checked_header(
    partition: ServedPartition, data: Buffer | None, acks: int, version: int
) -> Batch:
    """The batch, or a refusal that its header and its topic are enough for."""
    shard = partition.shard
    assert shard is not None, "found for use"
    partition.lead(shard)
    header, data = check_header(data, version)
    if partition.rules.replicas_min > 1:
        rules.check_replicas(partition.rules, acks, partition.isr_size)
    return Batch(partition, shard, header, data)
