"""What the mover needs of other parts, each a small part of something larger, and its limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stratamq.engine.contract import ShardTiering
from stratamq.meta.apply import Command
from stratamq.meta.tier.files import RetiredObject, TierFile
from stratamq.model.clock import Clock
from stratamq.model.config import NodeConfig
from stratamq.model.topic import Topic
from stratamq.model.types import ShardName
from stratamq.tiering.stores.contract import ObjectStore

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MoverLimits:
    interval_ms: int = 30_000
    workers: int = 1
    bytes_per_second: int = 0
    orphan_grace_ms: int = 24 * HOUR_MS
    rewrite_ms: int = HOUR_MS
    """How often a shard's files are looked through for records that were deleted since."""
    backoff_ms: int = 1_000
    backoff_ms_max: int = 10 * 60_000

    @classmethod
    def of(cls, config: NodeConfig) -> MoverLimits:
        return cls(
            interval_ms=config.number("tier.interval.ms"),
            workers=config.number("tier.workers"),
            bytes_per_second=config.number("tier.bytes.per.second"),
            orphan_grace_ms=config.number("tier.orphan.grace.ms"),
        )


class Meta(Protocol):
    """Part of `stratamq.meta.client.MetaClient`."""

    async def submit(self, *commands: Command) -> int: ...

    async def revision(self) -> int: ...


class Files(Protocol):
    """Part of `stratamq.meta.tier.cache.TierCache`."""

    def files(self, shard: ShardName) -> tuple[TierFile, ...]: ...

    def retired(self) -> Mapping[str, RetiredObject]: ...

    async def wait_for_revision(self, revision: int, timeout_s: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Everything the mover stands on.

    `topics` are those to look after, by this node. `engine_of` may be None for a moment: a shard
    that is being made, or deleted. `attach` makes the engine's history of a shard what the Meta
    Service says now.
    """

    meta: Meta
    files: Files
    topics: Callable[[], Collection[Topic]]
    engine_of: Callable[[ShardName], ShardTiering | None]
    attach: Callable[[ShardName], None]
    store: ObjectStore
    clock: Clock
    work_folder: Path
    owner: str
    """The mark of our objects: `stratamq.tiering.keys.owner_mark`."""

    @property
    def moving_folder(self) -> Path:
        """Where the files of segments on their way are, and nothing else."""
        return self.work_folder / "moving"
