"""All groups of this node: found, created, stored, deleted, expired."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Protocol

from stratamq.broker.kafka.contract import Services
from stratamq.broker.kafka.groups import document
from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.consumer.members import Subscriber, TopicInfo, Topics
from stratamq.broker.kafka.groups.group_state import Group, GroupState, expired_offsets
from stratamq.broker.kafka.groups.limits import (
    GROUP_BYTES,
    GroupConfigs,
    GroupLimit,
    GroupLimits,
    GroupUsage,
)
from stratamq.broker.kafka.groups.migration import settled
from stratamq.broker.kafka.groups.offsets.pending import PendingOffsets
from stratamq.meta.groups import DeleteGroup, GroupMeta, SaveGroup, check_group_name
from stratamq.model.errors import CapacityExceeded, NotFound, StrataError
from stratamq.wire.kafka.protocol import ErrorCode

log = logging.getLogger(__name__)

SWEEP_S = 600.0
"""How often offsets are looked at for expiry, as in Kafka."""

WARN_MS = 60_000


class TopicVisibility(Protocol):
    """Which topics members may know of. It changes with its `rules_version` only."""

    @property
    def rules_version(self) -> int: ...

    def shows(self, reader: Subscriber, topic: str) -> bool: ...


class AllTopicsVisible:
    """No authorizer is configured."""

    rules_version = 0

    def shows(self, reader: Subscriber, topic: str) -> bool:
        return True


class GroupCoordinator:
    """Groups by name. One with members has a `GroupState`. One that was left, or that only commits
    offsets, has none, and costs no more than its row in the Meta Service."""

    def __init__(self, services: Services, visibility: TopicVisibility) -> None:
        self.services = services
        self._visibility = visibility
        self._usage = GroupUsage()
        self.limits = GroupLimits.of(services.config, self._usage)
        self._logged: dict[GroupLimit, int] = {}
        self._configs = GroupConfigs(services)
        self.pending = PendingOffsets(services.meta, services.offsets, services.clock)
        self._states: dict[str, GroupState] = {}
        self._topics = Topics(None, {})
        self._closing = False
        self._sweeper: asyncio.Task[None] | None = None

    # -- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        self.services.configs.listen(self._reconfigure)
        self._reconfigure()
        stored = (await self.services.meta.snapshot()).members
        for group in stored.values():
            state = self._state(group.group, self._loaded(group))
            self._states[group.group] = state
            state.arm()
            self._release(state)
        self._sweeper = asyncio.create_task(self._sweep_forever(), name="group-sweeper")

    def wake_all(self) -> None:
        """Answer all requests that wait for other members, so that they do not hold up a stop."""
        self._closing = True
        for state in self._states.values():
            state.wake()

    async def stop(self) -> None:
        self.wake_all()
        sweeper, self._sweeper = self._sweeper, None
        if sweeper is not None:
            sweeper.cancel()
            await asyncio.wait([sweeper])
        for state in list(self._states.values()):
            await state.stop()

    def _reconfigure(self) -> None:
        self.limits = GroupLimits.of(self.services.config, self._usage)

    # -- groups --------------------------------------------------------------------------------

    @property
    def states(self) -> Mapping[str, GroupState]:
        return self._states

    def names(self) -> set[str]:
        """Of all groups that have or had members."""
        return {*self.services.meta.state.members, *self._states}

    def group(self, name: str) -> Group | None:
        """The group as it is, for reading; None where no members are or were in it."""
        state = self._states.get(name)
        if state is not None:
            return state.group
        stored = self.services.meta.state.members.get(name)
        return None if stored is None else self._loaded(stored)

    def find(self, name: str) -> GroupState | None:
        """For a request that begins at once."""
        state = self._states.get(name)
        if state is None and (group := self.group(name)) is not None:
            state = self._add(name, group)
        return state

    def find_or_create(self, name: str) -> GroupState:
        """InvalidName or CapacityExceeded when there can be no such group."""
        state = self.find(name)
        if state is None:
            check_group_name(name)
            groups_max = self.services.config.number("meta.groups.max")
            if max(len(self._states), len(self.services.meta.state.members)) >= groups_max:
                raise CapacityExceeded(f"meta.groups.max is {groups_max}")
            limit = self.limits.reached_by(0, GROUP_BYTES)
            if limit is not None:
                self.warn(name, limit)
                raise CapacityExceeded(f"{limit} is reached")
            state = self._add(name, ClassicGroup(self.limits))
        return state

    def _add(self, name: str, group: Group) -> GroupState:
        state = self._states[name] = self._state(name, group)
        # After the request that needs it has begun. If none begins, this drops it.
        asyncio.get_running_loop().call_soon(self._release, state)
        return state

    def _release(self, state: GroupState) -> None:
        """Drop a state without members and without work. The group is loaded again when a request
        needs it, if anything of it is stored."""
        if state.is_idle and self._states.get(state.name) is state:
            del self._states[state.name]
            state.forget()

    def limits_of(self, name: str) -> GroupLimits:
        """What holds for this group now."""
        return self.limits.over(self._configs.config(name))

    def warn(self, group: str, limit: GroupLimit | None) -> None:
        """Log that a request was refused, if by a limit; not more than a line a minute for each."""
        now_ms = self.services.clock.now_ms()
        if limit is not None and now_ms - self._logged.get(limit, -WARN_MS) >= WARN_MS:
            self._logged[limit] = now_ms
            log.warning("group %r: a member is refused, %s is reached", group[:100], limit)

    def topics(self) -> Topics:
        """The topics as they are now, listed again only after a change."""
        cache = self.services.broker_cache
        revision = (cache.revision, self._visibility.rules_version)
        if revision != self._topics.revision:
            infos = {one.name: TopicInfo(one.topic_id, one.partitions) for one in cache.topics()}
            self._topics = Topics(revision, infos, self._visibility.shows)
        return self._topics

    async def delete(self, name: str) -> ErrorCode:
        """A group without members, with all its offsets."""
        state = self.find(name)
        if state is None:
            if not await self.services.offsets.has_group(name):
                return ErrorCode.GROUP_ID_NOT_FOUND
            await self._forget(name)
            return ErrorCode.NONE
        return await state.run(lambda now_ms: state.group.delete(now_ms))

    # -- storing -------------------------------------------------------------------------------

    async def _store(self, name: str, group: Group) -> None:
        if group.is_dead:
            await self._forget(name)
            self._states.pop(name, None)
            return
        await self.services.meta.submit(
            SaveGroup(group=name, kind=group.kind, epoch=group.epoch, document=document.dump(group))
        )

    async def _forget(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self.services.offsets.delete_group(name)
        with contextlib.suppress(NotFound):  # the members, where the offsets are stored elsewhere
            await self.services.meta.submit(DeleteGroup(group=name))

    def _loaded(self, group: GroupMeta) -> Group:
        limits, now_ms = self.limits_of(group.group), self.services.clock.now_ms()
        return document.load(group.kind, group.document, group.epoch, limits, now_ms)

    def _state(self, name: str, group: Group) -> GroupState:
        state = GroupState(
            name,
            group,
            self.services.clock,
            self._store,
            self.limits_of,
            settled,
            self._release,
        )
        if self._closing:
            state.wake()
        return state

    # -- expiry --------------------------------------------------------------------------------

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                await self.sweep()
            except StrataError as error:
                log.error("expiring group offsets: %s", error)

    async def sweep(self) -> None:
        """Forget offsets that are past their time, and groups of which nothing is left."""
        now_ms = self.services.clock.now_ms()
        topics = {one.topic_id: one.name for one in self.services.broker_cache.topics()}
        for name in {*await self.services.offsets.groups(), *self.names()}:
            group = self.group(name)
            offsets = await self.services.offsets.committed(name)
            held = {shard for shard in offsets if self.pending.is_pending(name, shard)}
            expired = expired_offsets(offsets, group, topics, now_ms, self.limits.retention_ms)
            if expired - held:
                await self.services.offsets.delete(name, expired - held)
            nothing_left = offsets.keys() <= expired - held
            if not nothing_left or self.pending.producers(name):
                continue
            group = self.group(name)  # a member may have come meanwhile
            if group is not None and group.state == "Empty" and group.next_ms() is None:
                await self.delete(name)
