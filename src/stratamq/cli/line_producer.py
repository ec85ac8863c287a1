"""Lines of a file, a pipe or a terminal, on their way into a topic."""

from __future__ import annotations

import asyncio
import io
import os
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import BinaryIO

from stratamq.cli.command import Report
from stratamq.cli.failing import UsageError
from stratamq.cli.progress import ProgressLine
from stratamq.cli.tables import counted, sized
from stratamq.client import TopicPartition
from stratamq.client.router import gathered
from stratamq.model.errors import InvalidInput, StrataError
from stratamq.model.record import Record
from stratamq.wire.kafka.partitioner import partition_for_key

CHUNK_BYTES = 1 << 20
"""Lines that are read at once are sent together."""

LINE_BYTES_MAX = 64 << 20
"""More than any record may have. A longer line ends the command: it is not a file of lines."""

BATCH_BYTES_MAX, BATCH_RECORDS_MAX = 1 << 19, 10_000
"""Half of what nodes accept by default, so that headers and long lines still fit in a batch."""


Send = Callable[[TopicPartition, Sequence[Record]], Awaitable[int]]
"""Stores records of a partition and returns the offset of the first."""


class LineInput:
    """Whole lines as they come: a slow writer on the other end of a pipe is not waited for."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._rest, self.read_bytes = stream, b"", 0

    async def next(self) -> list[bytes]:
        """One line or more, without their ends; none when there are no more."""
        while data := await self._read():
            self.read_bytes += len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            if len(self._rest) > LINE_BYTES_MAX:
                raise InvalidInput(f"a line has more than {sized(LINE_BYTES_MAX)}")
            if lines:
                return [line.removesuffix(b"\r") for line in lines]
        rest, self._rest = self._rest, b""
        return [rest] if rest else []

    async def _read(self) -> bytes:
        """Ctrl-C can end this wait for a pipe or a terminal; it could not end a thread's."""
        try:
            descriptor = self._stream.fileno()
        except io.UnsupportedOperation:  # not a file of the system's: a test's input
            return self._stream.read(CHUNK_BYTES)
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        try:
            loop.add_reader(descriptor, ready.set)
        except PermissionError:  # a regular file never makes anyone wait
            return os.read(descriptor, CHUNK_BYTES)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(descriptor)
        return os.read(descriptor, CHUNK_BYTES)


class LineProducer:
    """Lines on their way into a topic, and what has come of them."""

    def __init__(self, topic: str, partitions: int, fixed: int | None, send: Send) -> None:
        self._topic, self._partitions, self._fixed, self._send = topic, partitions, fixed, send
        self.count = 0
        self.last: tuple[int, int] | None = None
        self.stored: dict[int, list[int]] = {}
        """Of each partition: how many records, and the offset of the last."""

    async def write(
        self, lines: LineInput, read: Callable[[bytes], Record], progress: ProgressLine
    ) -> None:
        """Lines before one that cannot be read are stored; the error says how many."""
        try:
            while some := await lines.next():
                records, fault = [], None
                for line in some:
                    try:
                        records.append(read(line))
                    except UsageError as error:
                        number = self.count + len(records) + 1
                        fault = InvalidInput(f"line {number} cannot be read: {error}")
                        break
                await self._store(records)
                if fault is not None:
                    raise fault
                progress.update(f"{self.count:,} records, {sized(lines.read_bytes)}")
        except StrataError as error:
            error.add_note(f"Stored before: {counted(self.count, 'record')}.")
            raise
        finally:
            progress.clear()

    async def _store(self, records: Sequence[Record]) -> None:
        by_partition: dict[int, list[Record]] = {}
        keyless = random.randrange(self._partitions)  # one for all of a chunk: fewer batches
        at = 0
        for record in records:
            at = self._partition_of(record, keyless)
            by_partition.setdefault(at, []).append(record)
        await gathered([self._store_in(number, some) for number, some in by_partition.items()])
        if records:
            self.last = (at, self.stored[at][1])

    def _partition_of(self, record: Record, keyless: int) -> int:
        if self._fixed is not None:
            return self._fixed
        return keyless if record.key is None else partition_for_key(record.key, self._partitions)

    async def _store_in(self, partition: int, records: Sequence[Record]) -> None:
        stored = self.stored.setdefault(partition, [0, -1])
        for batch in batches_of(records):
            first = await self._send(TopicPartition(self._topic, partition), batch)
            self.count += len(batch)
            stored[0] += len(batch)
            stored[1] = first + len(batch) - 1 if first >= 0 else -1

    def report(self) -> Report:
        partitions = [
            {"partition": number, "count": count, "last_offset": last}
            for number, (count, last) in sorted(self.stored.items())
        ]
        last = None
        if self.last is not None:
            last = {"partition": self.last[0], "offset": self.last[1]}
        data = {"topic": self._topic, "count": self.count, "last": last, "partitions": partitions}
        text = f"{self._topic}: {counted(self.count, 'record')} stored"
        if self.last is not None:
            text += f", the last in partition {self.last[0]} at offset {self.last[1]}"
        return Report(data, [text])


def batches_of(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Runs of records, each small enough for a batch if it has more than one."""
    batch: list[Record] = []
    size = 0
    for record in records:
        more = len(record.value or b"") + len(record.key or b"")
        if batch and (size + more > BATCH_BYTES_MAX or len(batch) == BATCH_RECORDS_MAX):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += more
    if batch:
        yield batch
