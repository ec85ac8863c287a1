"""Backups of a node in this process, with something done at the moment that counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from stratamq.broker.kafka.backup import FinishedBackup
from stratamq.log.shard_copy import OnBytes
from stratamq.model.settings.topic import StorageType
from stratamq.model.types import ShardName
from stratamq.node.backup import BackupRun, Ends
from stratamq.node.backup_folder import PARTIAL
from stratamq.node.core import NodeCore
from stratamq.node.embedded import AsyncNode, AsyncTopic
from stratamq.node.restore import restore

SMALL = {"segment.bytes": 2000, "flush": "os"}


async def nothing() -> None:
    return


def ignore(count: int) -> None:
    return


class EventfulRun(BackupRun):
    """`meanwhile` is done after the moment, before the first shard is copied."""

    def __init__(
        self, core: NodeCore, partial: Path, meanwhile: Callable[[], Awaitable[object]]
    ) -> None:
        super().__init__(core, partial)
        self._meanwhile = meanwhile

    async def _copy_shards(self, ends: Mapping[StorageType, Ends]) -> set[ShardName]:
        await self._meanwhile()
        return await super()._copy_shards(ends)


async def restored(
    node: AsyncNode,
    folder: Path,
    meanwhile: Callable[[], Awaitable[object]] = nothing,
    on_bytes: OnBytes = ignore,
) -> tuple[FinishedBackup, Path]:
    """A backup of the node, and the data folder that it was restored to."""
    made = await EventfulRun(node.core, folder / f"monday{PARTIAL}", meanwhile).make()
    restore(folder / "monday", folder / "restored", on_bytes)
    return made, folder / "restored"


async def fill(topic: AsyncTopic, first: int, count: int) -> None:
    for number in range(first, first + count):
        await topic.produce(f"{number}".ljust(100), key=f"{number % 7}", tags=[f"{number % 3}"])


async def numbers(topic: AsyncTopic, partition: int = 0) -> list[int]:
    return [int(one.text) for one in await topic.read(partition=partition, limit=100_000)]
