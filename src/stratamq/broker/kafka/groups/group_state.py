"""One group at work: its state machine, a lock, a timer, and the requests that wait.

No reply leaves before the state that it depends on is stored. When storing fails, all requests that
wait are answered with COORDINATOR_NOT_AVAILABLE, and the next event stores again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.classic.members import GroupReply
from stratamq.broker.kafka.groups.consumer.group import ConsumerGroup
from stratamq.broker.kafka.groups.limits import GROUP_BYTES, GroupLimits
from stratamq.meta.groups import Offsets
from stratamq.model.clock import Clock
from stratamq.model.errors import Closed, StrataError
from stratamq.model.shard import split_shard_name
from stratamq.model.types import ShardName, TopicId
from stratamq.wire.kafka.protocol import ErrorCode, ProtocolError, decode_embedded
from stratamq.wire.kafka.protocol.messages.groups import ConsumerProtocolSubscription

log = logging.getLogger(__name__)

Group = ClassicGroup | ConsumerGroup
T = TypeVar("T")


class GroupState:
    """A group in memory. `store` makes it durable; none of its callers may run at the same time.
    `limits` says what holds for a group now: its configs may have been altered meanwhile.
    `migrate` gives the group after a request, which may have become one of the other protocol.
    `rest` is called when there is no work left and no member."""

    def __init__(
        self,
        name: str,
        group: Group,
        clock: Clock,
        store: Callable[[str, Group], Awaitable[None]],
        limits: Callable[[str], GroupLimits],
        migrate: Callable[[Group, int], Group],
        rest: Callable[[GroupState], None],
    ) -> None:
        self.name = name
        self.group = group
        self._clock = clock
        self._store = store
        self._limits = limits
        self._migrate = migrate
        self._rest = rest
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._work: set[asyncio.Task[Any]] = set()
        self._waiting: dict[asyncio.Future[GroupReply], None] = {}
        self._closing = False
        self._counted_bytes = 0
        self.count()

    def count(self) -> None:
        """Count the group's size in the node's. A group that is dead has none."""
        size = 0 if self.group.is_dead else self.group.size_bytes
        self.group.limits.usage.used += size - self._counted_bytes
        self._counted_bytes = size

    @property
    def is_idle(self) -> bool:
        """No member, no id that waits to be used, no request, and nothing that is not stored."""
        group = self.group
        if group.size_bytes > GROUP_BYTES or group.changed or self._work:
            return False
        return group.state == "Empty" and group.next_ms() is None

    def forget(self) -> None:
        """Not used any more: subtract its size from the node's."""
        self.group.limits.usage.used -= self._counted_bytes
        self._counted_bytes = 0

    async def run(self, act: Callable[[int], T]) -> T:
        """`act` on the group, given the time. What it did is stored when this returns."""
        # In a task of its own: a client that hangs up does not leave others without an answer.
        return await asyncio.shield(self._spawn(self._act(act)))

    async def ask(self, act: Callable[[int, asyncio.Future[GroupReply]], None]) -> GroupReply:
        """The same for a request whose answer may have to wait for other members."""
        if self._closing:
            raise Closed("the node stops")
        reply: asyncio.Future[GroupReply] = asyncio.get_running_loop().create_future()
        self._waiting[reply] = None
        reply.add_done_callback(self._waiting.pop)
        await self.run(lambda now_ms: act(now_ms, reply))
        return await reply

    def wake(self) -> None:
        """The node stops: end all waits. The group stays as it is."""
        self._closing = True
        for reply in list(self._waiting):
            if not reply.done():
                reply.set_exception(Closed("the node stops"))

    def arm(self) -> None:
        """Look at the group again when its next deadline comes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_ms = self.group.next_ms()
        if next_ms is not None:
            delay_s = max(0, next_ms - self._clock.now_ms() + 1) / 1000
            self._timer = asyncio.get_running_loop().call_later(
                delay_s, lambda: self._spawn(self._tick())
            )

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._work:
            await asyncio.wait(self._work)

    async def _act(self, act: Callable[[int], T]) -> T:
        async with self._lock:
            self.group.limits = self._limits(self.name)
            now_ms = self._clock.now_ms()
            result = act(now_ms)
            self.group = self._migrate(self.group, now_ms)
            self.count()
            await self._settle()
            return result

    async def _settle(self) -> None:
        group = self.group
        try:
            if group.changed:
                await self._store(self.name, group)
                group.changed = False
        except BaseException:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            group.replies[:] = [(future, type(one)(error=error)) for future, one in group.replies]
            raise
        finally:
            replies, group.replies = group.replies, []
            for future, reply in replies:
                if not future.done():  # else the client has gone
                    future.set_result(reply)
            self.arm()

    async def _tick(self) -> None:
        try:
            await self._act(lambda now_ms: self.group.tick(now_ms))
        except StrataError as error:
            log.error("group %r could not be stored: %s", self.name, error)

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._work.discard(task)
        if self.is_idle:
            self._rest(self)


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics that a group reads; None when its members do not speak the consumer protocol."""
    if isinstance(group, ConsumerGroup):
        return frozenset(group.target.topics)
    if group.protocol_type != "consumer" or group.protocol is None:
        return None
    topics: set[str] = set()
    for member in group.roster:
        try:
            metadata = member.metadata(group.protocol)
            _, subscription = decode_embedded(ConsumerProtocolSubscription, metadata)
        except ProtocolError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)


def expired_offsets(
    offsets: Offsets,
    group: Group | None,
    names: Mapping[TopicId, str],
    now_ms: int,
    retention_ms: int,
) -> set[ShardName]:
    """The shards whose offsets are older than `retention_ms`. The time counts from when the last
    member left, or from the commit where there never was one. While a group has members, offsets
    of the topics they read do not expire."""
    if group is None:
        used, since_ms = frozenset[str](), 0
    elif group.state == "Empty":
        used, since_ms = frozenset[str](), group.since_ms
    else:
        topics = subscribed_topics(group)
        if topics is None:
            return set()
        used, since_ms = topics, 0
    return {
        shard
        for shard, offset in offsets.items()
        if now_ms - max(since_ms, offset.commit_ms) >= retention_ms
        and names.get(split_shard_name(shard)[0]) not in used
    }
