"""What is looked at in a producer's batch before it is stored, where, and how much of it.

Every record of a batch is looked at. For most batches that takes less than a millisecond and is
done on the event loop. A batch of a few bytes may unpack to megabytes, though, and some topics have
each batch packed again: what takes long is done by a thread, one batch after the other.

A request pays for all of its batches together: what they count and unpack to is limited before it
is looked at.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from stratamq.broker.kafka import produce_rules as rules
from stratamq.broker.kafka.contract import Services
from stratamq.broker.kafka.topics import Refused
from stratamq.broker.kafka.turns import NO_CLIENT, turns
from stratamq.engine.contract import AcceptedBatch
from stratamq.model.config import NodeConfig
from stratamq.model.errors import BatchTooLarge, InvalidRecord, InvalidTimestamp
from stratamq.model.topic import LONG_MAX, Topic
from stratamq.wire.kafka.protocol import Buffer, ErrorCode
from stratamq.wire.kafka.records import BatchHeader, Scratch
from stratamq.wire.kafka.records.layout import CODEC_MASK

BRIEF_BYTES = (1 << 20) + (64 << 10)
"""What is looked at on the event loop: the largest batch that is taken by default, as it came or
unpacked."""

PACKED_BRIEF_BYTES = BRIEF_BYTES // 4
"""A compressed batch above this most likely unpacks to more, and is not tried."""


class Batch(NamedTuple):
    """A batch that may be written as far as its header tells, and where it goes."""

    topic: Topic
    partition: int
    header: BatchHeader
    data: Buffer
    held_to: rules.Rules


class Allowance:
    """What the batches of one request may still cost."""

    def __init__(self, config: NodeConfig) -> None:
        self._batches = config.number("produce.batches.max")
        self._records = config.number("produce.records.max")
        self._unpacked_max = config.number("produce.decompressed.bytes.max")
        self._batch_max = config.number("batch.decompressed.bytes.max")
        self._unpacked = 0

    @property
    def unpacked_bytes(self) -> int:
        """What the next batch may unpack to."""
        return min(self._batch_max, self._unpacked_max - self._unpacked)

    def count(self, header: BatchHeader) -> None:
        """One more batch, before any of it is looked at."""
        self._batches -= 1
        self._records -= max(header.record_count, 0)
        if self._batches < 0:
            raise Refused(ErrorCode.POLICY_VIOLATION, "more batches than produce.batches.max")
        if self._records < 0:
            raise BatchTooLarge("more records in one request than produce.records.max")
        if self.unpacked_bytes <= 0:
            raise BatchTooLarge("more in one request than produce.decompressed.bytes.max unpacked")

    def unpacked(self, accepted: Buffer | AcceptedBatch) -> None:
        if isinstance(accepted, AcceptedBatch):
            self._unpacked += accepted.unpacked_bytes


class BatchIntake:
    """Looks at batches, one at a time per request. A batch that was looked at elsewhere than on
    the event loop is as good as any other: `append_batch` takes both."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stratamq-batches")
        self._scratch, self._threads_scratch = Scratch(), Scratch()

    def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def look_briefly(self, batch: Batch, allowance: Allowance) -> Buffer | AcceptedBatch | None:
        """On the event loop; None where that would take long, or would come on top of much else."""
        allowance.count(batch.header)
        packed = batch.header.attributes & CODEC_MASK
        if len(batch.data) > (PACKED_BRIEF_BYTES if packed else BRIEF_BYTES):
            return None
        if _is_unpacked_anyway(batch) or (packed and turns().is_used_up):
            return None
        limit = min(BRIEF_BYTES, allowance.unpacked_bytes)
        began = time.perf_counter()
        try:
            accepted = self._accept(batch, batch.data, limit, self._scratch)
        except BatchTooLarge:
            if not packed:
                raise
            return None
        finally:
            if packed:
                turns().use(NO_CLIENT, time.perf_counter() - began)
        allowance.unpacked(accepted)
        return accepted

    async def look(self, batch: Batch, allowance: Allowance) -> Buffer | AcceptedBatch:
        """By the thread. It was looked at briefly before, and counted there."""
        loop = asyncio.get_running_loop()
        look = partial(self._in_thread, batch, allowance.unpacked_bytes)
        accepted = await loop.run_in_executor(self._thread, look)
        allowance.unpacked(accepted)
        return accepted

    def _in_thread(self, batch: Batch, limit: int) -> Buffer | AcceptedBatch:
        now_ms, held_to = self._services.clock.now_ms(), batch.held_to
        try:
            rules.check_timestamps(held_to, batch.header, batch.data, now_ms, limit)
            data = rules.compressed(held_to, batch.header, batch.data, limit)
            return self._accept(batch, data, limit, self._threads_scratch)
        except (InvalidRecord, InvalidTimestamp) as error:
            raise rules.at_fault(batch.header, batch.data, error, limit) from None

    def _accept(
        self, batch: Batch, data: Buffer, limit: int, scratch: Scratch
    ) -> Buffer | AcceptedBatch:
        return self._services.drivers.accept(
            batch.topic, batch.partition, data, decompressed_max=limit, scratch=scratch
        )


def _is_unpacked_anyway(batch: Batch) -> bool:
    """Whether the topic asks for more than a look."""
    codec = batch.held_to.codec
    return batch.held_to.before_ms != LONG_MAX or codec not in (None, batch.header.compression)
