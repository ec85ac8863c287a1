"""A log on twins of disk and index store, with a ledger beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

from stratamq.log.contract import PlacedBatch
from stratamq.log.shard_log import FileShardLog
from stratamq.model.errors import OutOfResources
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import BatchHeader, drop_records, read_header
from tests.log.ledger import Ledger
from tests.log.support import FOLDER, ROOM, batches_from, open_log
from tests.twins.disk import Power, SimDisk
from tests.twins.kv import Loss, SimKV

INDEX = Path("/index")
SEGMENT_BYTES = 1024
SEED_STEP = 1009


class Rig:
    """The operations of a log, each written into the ledger before it begins and after it ends."""

    def __init__(self, disk: SimDisk, kv: SimKV, ledger: Ledger, seed: int = 0) -> None:
        self.disk, self.kv, self.ledger = disk, kv, ledger
        self._seed = seed
        self._opened: FileShardLog | None = None
        kv.before_write = self._before_kv_write

    @classmethod
    def new(cls) -> Rig:
        disk = SimDisk()
        disk.make_folder(FOLDER.parent)
        disk.sync_folder(Path("/"))
        return cls(disk, SimKV(), Ledger())

    def _before_kv_write(self, sync: bool) -> None:
        """Writes to the index are calls as well: a crash may come before any of them."""
        self.disk.step("kv sync" if sync else "kv write", INDEX)

    @property
    def log(self) -> FileShardLog:
        assert self._opened is not None, "opened first"
        return self._opened

    def open(self) -> Rig:
        self._opened = open_log(self.disk, self.kv, segment_bytes=SEGMENT_BYTES)
        return self

    def fork(self) -> Rig:
        """The same machine in another world. Its process has yet to begin."""
        return Rig(self.disk.copy(), self.kv.copy(), self.ledger.copy(), self._seed)

    def after_crash(self, power: Power, loss: Loss, rng: Random) -> Rig:
        return Rig(
            self.disk.after_crash(power, rng),
            self.kv.after_crash(loss, rng),
            self.ledger.copy(),
            self._seed,
        )

    # -- operations ----------------------------------------------------------------------------

    def append(
        self, *counts: int, epoch: int | None = None, durable: bool = False
    ) -> list[PlacedBatch]:
        """One call with batches of these many records, in the newest epoch unless told."""
        history = self.log.epochs()
        newest = history[-1].epoch if history else 0
        batches = self._next_batches(counts, newest if epoch is None else epoch)
        self.ledger.submit(batches)
        try:
            self.log.append(batches, durable=durable)
        except OutOfResources:
            self.ledger.refuse(batches)
            raise
        return batches

    def _next_batches(self, counts: Iterable[int], epoch: int) -> list[PlacedBatch]:
        self._seed += SEED_STEP
        return batches_from(self.log.end_offset, tuple(counts), epoch, self._seed)

    def ack(self) -> None:
        self.log.sync()
        self.log.flush_index()
        self.ledger.acknowledge()

    def commit(self, *counts: int, epoch: int | None = None) -> None:
        self.append(*counts, epoch=epoch, durable=True)
        self.ack()

    def roll(self) -> None:
        self.log.roll()

    def truncate(self, end: int) -> None:
        self.ledger.begin_truncate(end)
        self.log.truncate(Offset(end))
        self.ledger.end_truncate(end)

    def trim(self, start: int) -> None:
        self.ledger.begin_trim(start)
        self.log.trim(Offset(start))
        self.ledger.end_trim(start)

    def offload(self, end: int) -> None:
        bases = [info.base_offset for info in self.log.segments()]
        self.ledger.begin_offload(max(base for base in bases if base <= end))
        self.log.offload(Offset(end))
        self.ledger.end_offload(self.log.local_start)

    def restart(self, start: int) -> None:
        self.ledger.begin_restart(start)
        self.log.restart(Offset(start))
        self.ledger.end_restart(start)

    def delete(self, *offsets: int) -> None:
        self.ledger.begin_delete(offsets)
        self.log.delete(Offset(offset) for offset in offsets)
        self.ledger.end_delete()

    def rewrite(self, number: int, gone: Callable[[int], bool]) -> None:
        """Compact the segment with this number, leaving out the records that are `gone`."""
        info = self.log.segments()[number]
        old = {
            base: data
            for base, data in self.ledger.certain.items()
            if info.base_offset <= base < info.end_offset
        }
        dropped = [at for at in range(info.base_offset, info.end_offset) if gone(at)]
        new: dict[int, bytes] = {}

        def rewriter(header: BatchHeader, data: memoryview) -> bytes | None:
            return drop_records(header, data, dropped, ROOM)

        for one in batches_of(old):
            left = drop_records(*one, dropped, ROOM)
            if left is not None:
                new[one[0].base_offset] = left
        self.ledger.begin_rewrite(old, new)
        self.log.rewrite(info.base_offset, rewriter)
        self.ledger.end_rewrite()

    def close(self) -> None:
        self.log.close()
        self.ledger.acknowledge()


def batches_of(stored: dict[int, bytes]) -> list[tuple[BatchHeader, bytes]]:
    return [(read_header(data), data) for data in stored.values()]
