"""The client for asyncio: everything in this package under one name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from stratamq.client import lake, offsets, producing, topics, transactions
from stratamq.client.cluster import ClusterView, TopicPartition, TopicView
from stratamq.client.fetching import Fetched, FetchLimits, fetch
from stratamq.client.options import ClientOptions
from stratamq.client.router import Router
from stratamq.wire.kafka.protocol import NO_UUID, Buffer
from stratamq.wire.kafka.protocol.messages.lake import (
    CommitLakeTopic,
    DescribedLake,
    FlushedLake,
)
from stratamq.wire.kafka.records import Compression

EARLIEST, LATEST = offsets.EARLIEST, offsets.LATEST
_LIMITS = FetchLimits()


class Client:
    """Belongs to one event loop. Connections are made when they are needed.

    Every call tries again, within `ClientOptions.retry_ms_max`, what failed for a reason that may
    pass: a lost connection, a leader that moved. Errors are those of `stratamq.model.errors`.
    """

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.router = Router(options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Requests under way fail."""
        self.router.close()

    # -- topics --------------------------------------------------------------------------------

    async def cluster(self) -> ClusterView:
        """Nodes and all topics."""
        return await self.router.cluster()

    async def describe_topics(
        self, names: Sequence[str], *, create: bool = False
    ) -> dict[str, TopicView]:
        """TopicNotFound names the first that is not there. With `create`, topics are made by being
        asked for, as by Kafka's producers."""
        return dict((await self.router.cluster(names, create=create)).topics)

    async def create_topic(
        self,
        name: str,
        partitions: int = topics.DEFAULT,
        replicas: int = topics.DEFAULT,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        await topics.create_topic(self.router, name, partitions, replicas, configs or {})

    async def delete_topic(self, name: str) -> None:
        await topics.delete_topic(self.router, name)

    async def add_partitions(self, name: str, count: int) -> None:
        await topics.add_partitions(self.router, name, count)

    # -- history and tables --------------------------------------------------------------------

    async def describe_lake(self, topic: str) -> DescribedLake:
        return await lake.describe_lake(self.router, topic)

    async def commit_lake(self, commit: CommitLakeTopic) -> None:
        await lake.commit_lake(self.router, commit)

    async def flush_lake(self, topic: str) -> FlushedLake:
        return await lake.flush_lake(self.router, topic)

    async def delete_records(self, place: TopicPartition, before: int) -> int:
        return await topics.delete_records(self.router, place, before)

    # -- reading -------------------------------------------------------------------------------

    async def list_offsets(
        self, asked: offsets.Asked, *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        return await offsets.list_offsets(self.router, asked, committed=committed)

    async def fetch(
        self,
        place: TopicPartition,
        offset: int,
        limits: FetchLimits = _LIMITS,
        *,
        committed: bool = False,
        topic_id: bytes = NO_UUID,
    ) -> Fetched:
        return await fetch(
            self.router, place, offset, limits, committed=committed, topic_id=topic_id
        )

    async def group_offsets(self, group: str) -> dict[TopicPartition, offsets.GroupOffset]:
        return await offsets.group_offsets(self.router, group)

    # -- writing -------------------------------------------------------------------------------

    async def produce(self, place: TopicPartition, batch: Buffer, acks: int = producing.ALL) -> int:
        """A batch as it is. Sent again after a lost answer, it may be stored twice."""
        return await producing.produce(self.router, place, batch, acks=acks)

    async def sender(self, compression: Compression = Compression.NONE) -> producing.Sender:
        """An idempotent producer: each record is stored once, whatever is lost on the way."""
        who = await producing.init_producer(self.router)
        return producing.Sender(self.router, who, compression=compression)

    async def begin(
        self,
        transactional_id: str,
        *,
        timeout_ms: int = transactions.TIMEOUT_MS,
        compression: Compression = Compression.NONE,
    ) -> transactions.Transaction:
        return await transactions.begin(
            self.router, transactional_id, timeout_ms=timeout_ms, compression=compression
        )

    async def fence(self, transactional_id: str) -> transactions.Handle:
        return await transactions.fence(self.router, transactional_id)

    async def describe_transaction(self, transactional_id: str) -> transactions.Described:
        return await transactions.describe(self.router, transactional_id)

    async def end(self, handle: transactions.Handle, *, commit: bool) -> None:
        await transactions.end(self.router, handle, commit=commit)

    async def commit_offset(
        self,
        handle: transactions.Handle,
        group: str,
        place: TopicPartition,
        offset: int,
        note: str = "",
    ) -> None:
        await transactions.commit_offset(self.router, handle, group, place, offset, note)
