"""Finds the right node for a request, keeps connections, and retries what may pass."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from stratamq.client.cluster import ClusterView, TopicPartition, cluster_of
from stratamq.client.connection import NodeConnection, connect
from stratamq.client.failures import MOVED, Refusal, as_ours, check
from stratamq.client.options import ClientOptions, Server
from stratamq.model.errors import Closed, StrataError, TimedOut, TopicNotFound, Unreachable
from stratamq.net.tls import TlsContext, client_context
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from stratamq.wire.kafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)


class Pool:
    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._tls = tls_of(options)
        self._open: dict[Server, NodeConnection] = {}
        self._making: dict[Server, asyncio.Lock] = {}
        self._closed = False

    async def get(self, server: Server) -> NodeConnection:
        """Unreachable or Denied when there is no connection to be had."""
        if self._closed:
            raise Closed("the client is closed")
        known = self._open.get(server)
        if known is not None and known.is_open:
            return known
        async with self._making.setdefault(server, asyncio.Lock()):
            known = self._open.get(server)
            if known is None or not known.is_open:
                known = self._open[server] = await connect(server, self._options, self._tls)
            return known

    def close(self) -> None:
        self._closed = True
        for connection in self._open.values():
            connection.close()
        self._open.clear()


def tls_of(options: ClientOptions) -> TlsContext | None:
    if options.tls is None:
        return None
    files = options.tls
    return client_context(
        authorities=files.authorities, certificate=files.certificate, key=files.key
    )


T = TypeVar("T")
JITTER = 0.2


def pauses_s(options: ClientOptions) -> Iterator[float]:
    """Ever longer ones, each a little by chance, so that many clients do not come back at once."""
    pause_ms = float(options.backoff_ms)
    while True:
        yield pause_ms * random.uniform(1 - JITTER, 1 + JITTER) / 1000
        pause_ms = min(pause_ms * 2, options.backoff_ms_max)


def may_pass(error: StrataError) -> bool:
    if isinstance(error, Refusal):
        return error.code.retriable
    return isinstance(error, Unreachable | TimedOut)


async def retried(
    attempt: Callable[[], Awaitable[T]],
    options: ClientOptions,
    failed: Callable[[StrataError], None] = lambda error: None,
) -> T:
    """What `attempt` returns in the end. `failed` hears of each failure that is tried again.

    After `retry_ms_max` the last failure is raised as the error callers know.
    """
    deadline = asyncio.get_running_loop().time() + options.retry_ms_max / 1000
    for pause_s in pauses_s(options):
        try:
            return await attempt()
        except StrataError as error:
            late = asyncio.get_running_loop().time() + pause_s > deadline
            if late or not may_pass(error):
                raise (as_ours(error) if isinstance(error, Refusal) else error) from None
            failed(error)
        await asyncio.sleep(pause_s)
    raise AssertionError("pauses never end")


GROUP, TRANSACTION = 0, 1
_COORDINATOR_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class Router:
    """Knows the cluster as it was last seen, and looks again when a node says otherwise."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self._pool = Pool(options)
        self._cluster = ClusterView(nodes={})
        self._coordinators: dict[tuple[int, str], Server] = {}

    def close(self) -> None:
        self._pool.close()

    async def retried(
        self,
        attempt: Callable[[], Awaitable[T]],
        failed: Callable[[StrataError], None] = lambda error: None,
    ) -> T:
        return await retried(attempt, self.options, failed)

    # -- any node ------------------------------------------------------------------------------

    async def any_node(self) -> NodeConnection:
        """The first that answers: those named at the start, then those they know of."""
        servers = dict.fromkeys([*self.options.servers, *self._cluster.nodes.values()])
        failures: list[str] = []
        for server in servers:
            try:
                return await self._pool.get(server)
            except Unreachable as error:
                failures.append(str(error))
        raise Unreachable("no node can be reached: " + "; ".join(failures))

    async def ask_any(self, request: object, answer: type[T]) -> T:
        node = await self.any_node()
        return await node.ask(request, answer, self.request_s)

    @property
    def request_s(self) -> float:
        return self.options.request_ms_max / 1000

    # -- metadata ------------------------------------------------------------------------------

    async def cluster(
        self, topics: Sequence[str] | None = None, *, create: bool = False
    ) -> ClusterView:
        """A fresh look at these topics, or at all. TopicNotFound names the first that is not there.

        With `create`, a topic is made by being asked for, as by Kafka's producers, where the nodes
        allow that.
        """
        return await self.retried(lambda: self._look(topics, create))

    async def _look(self, topics: Sequence[str] | None, create: bool = False) -> ClusterView:
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        response = await self.ask_any(request, MetadataResponse)
        for topic in response.topics:
            if topics is not None and topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                forbidden = ", and auto.create.topics.enable is off" if create else ""
                raise TopicNotFound(f"there is no topic {topic.name!r}{forbidden}")
            if topics is not None:
                check(topic.error_code, f"topic {topic.name!r}")
        seen = cluster_of(response)
        self._cluster = self._cluster.with_topics(seen) if topics is not None else seen
        return seen

    # -- leaders -------------------------------------------------------------------------------

    async def leader(self, place: TopicPartition) -> Server:
        server = self._cluster.leader(place)
        if server is None:
            seen = await self._look([place.topic])
            server = seen.leader(place)
            count = len(seen.topics[place.topic].partitions)
            if place.partition >= count:
                raise TopicNotFound(f"{place.topic!r} has {count} partitions, not {place}")
        if server is None:
            raise Refusal(ErrorCode.LEADER_NOT_AVAILABLE, str(place))
        return server

    async def on_leader(
        self, place: TopicPartition, attempt: Callable[[NodeConnection], Awaitable[T]]
    ) -> T:
        """Run an attempt on the partition's leader; on another node when the leader has moved."""

        async def once() -> T:
            node = await self._pool.get(await self.leader(place))
            return await attempt(node)

        return await self.retried(once, lambda error: self._moved(place.topic, error))

    def _moved(self, topic: str, error: StrataError) -> None:
        if not isinstance(error, Refusal) or error.code in MOVED:
            known = {name: view for name, view in self._cluster.topics.items() if name != topic}
            self._cluster = ClusterView(nodes=self._cluster.nodes, topics=known)

    # -- coordinators --------------------------------------------------------------------------

    async def on_coordinator(
        self, kind: int, key: str, attempt: Callable[[NodeConnection], Awaitable[T]]
    ) -> T:
        """Run an attempt on the coordinator of the group or transactional id `key`."""

        async def once() -> T:
            server = self._coordinators.get((kind, key)) or await self._find(kind, key)
            return await attempt(await self._pool.get(server))

        def moved(error: StrataError) -> None:
            if not isinstance(error, Refusal) or error.code in _COORDINATOR_MOVED:
                self._coordinators.pop((kind, key), None)

        return await self.retried(once, moved)

    async def _find(self, kind: int, key: str) -> Server:
        request = FindCoordinatorRequest(key=key, key_type=kind)
        reply = await self.ask_any(request, FindCoordinatorResponse)
        check(reply.error_code, f"coordinator of {key!r}", reply.error_message)
        server = self._coordinators[kind, key] = Server(reply.host, reply.port)
        return server

    async def by_leader(
        self, places: Sequence[TopicPartition]
    ) -> dict[Server, list[TopicPartition]]:
        """Grouped by who leads them now."""
        missing = {place.topic for place in places if self._cluster.leader(place) is None}
        if missing:
            await self._look(sorted(missing))
        found: dict[Server, list[TopicPartition]] = {}
        for place in places:
            found.setdefault(await self.leader(place), []).append(place)
        return found

    async def node(self, server: Server) -> NodeConnection:
        return await self._pool.get(server)

    def forget(self, topics: Sequence[str], error: StrataError) -> None:
        for topic in topics:
            self._moved(topic, error)


async def gathered(calls: Sequence[Awaitable[T]]) -> list[T]:
    """Wait for all of them; raise the first failure once all have ended."""
    done = await asyncio.gather(*calls, return_exceptions=True)
    results: list[T] = []
    for one in done:
        if isinstance(one, BaseException):
            raise one
        results.append(one)
    return results
