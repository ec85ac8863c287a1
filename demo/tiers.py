"""What is where: records, bytes and files of each topic, by tier."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stratamq.client import BlockingClient
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake

POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class TierRow:
    topic: str
    storage: str
    records: int
    local_bytes: int
    cold_records: int
    cold_bytes: int
    """Of the files, in the object store."""
    moved_bytes: int
    """What the same records took in the log."""
    files: int

    @property
    def cold_share(self) -> float:
        return self.cold_records / self.records if self.records else 0.0


def tier_row(lake: DescribedLake, storage: str) -> TierRow:
    files = [file for part in lake.partitions for file in part.files]
    return TierRow(
        topic=lake.name,
        storage=storage,
        records=sum(part.last_stable_offset - part.start_offset for part in lake.partitions),
        local_bytes=sum(part.local_bytes for part in lake.partitions),
        cold_records=sum(file.rows for file in files),
        cold_bytes=sum(file.parquet_size for file in files),
        moved_bytes=sum(file.log_bytes for file in files),
        files=len(files),
    )


def looked(client: BlockingClient, topics: Sequence[tuple[str, str]]) -> list[TierRow]:
    return [
        tier_row(client.call(client.asyncio.describe_lake(name)), storage)
        for name, storage in topics
    ]


def settled(
    look: Callable[[], list[TierRow]], is_done: Callable[[list[TierRow]], bool], wait_s: float
) -> list[TierRow]:
    """Look until it is done, or for so long."""
    deadline = time.monotonic() + wait_s
    rows = look()
    while not is_done(rows) and time.monotonic() < deadline:
        time.sleep(POLL_S)
        rows = look()
    return rows
