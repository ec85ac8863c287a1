"""What these APIs need to know of tiering. Given to them, since few nodes need all of it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from stratamq.meta.tier.files import Replaced, TierFile
from stratamq.model.topic import Topic
from stratamq.model.types import ShardName


class StoreAddress(NamedTuple):
    """Where the object store is, for who has credentials of their own."""

    url: str
    s3_endpoint: str = ""
    s3_region: str = ""
    s3_path_style: bool = False


class Flushed(NamedTuple):
    """What a flush made visible."""

    files: int
    rows: int


class Moving(NamedTuple):
    """A segment on its way: at which step, and how far in it."""

    step: str
    done_bytes: int
    total_bytes: int


class Lake(Protocol):
    @property
    def store(self) -> StoreAddress: ...

    def files(self, shard: ShardName) -> tuple[TierFile, ...]:
        """What the object store has of a shard, oldest first."""

    def table(self, topic: Topic) -> str | None:
        """The name of the topic's Iceberg table, if it is one."""

    def moving(self, shard: ShardName) -> Moving | None:
        """The segment of the shard that is being moved just now."""

    @property
    def trouble(self) -> str | None:
        """What went wrong last, if something did."""

    async def flush(self, topic: Topic) -> Flushed:
        """Make all that is decided visible in the topic's table."""

    async def commit(self, file: TierFile, replaced: Replaced) -> None:
        """Put a file that was made elsewhere in place of others."""
