"""All groups of this node: found, made, stored, deleted, expired."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Protocol

from stratamq.broker.kafka.contract import Services
from stratamq.broker.kafka.groups import expiry
from stratamq.broker.kafka.groups.cell import Cell, Machine
from stratamq.broker.kafka.groups.classic import document as classic_document
from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.consumer import document as consumer_document
from stratamq.broker.kafka.groups.consumer.members import Reader, TopicInfo, Topics
from stratamq.broker.kafka.groups.limits import (
    GROUP_BYTES,
    GroupConfigs,
    GroupLimits,
    GroupUsage,
    Limit,
)
from stratamq.broker.kafka.groups.migration import settled
from stratamq.broker.kafka.groups.pending import PendingOffsets
from stratamq.meta.groups import DeleteGroup, GroupMeta, SaveGroup, check_group_name
from stratamq.model.errors import CapacityExceeded, NotFound, StrataError
from stratamq.wire.kafka.protocol import ErrorCode

log = logging.getLogger(__name__)

SWEEP_S = 600.0
"""How often offsets are looked at for expiry, as in Kafka."""

WARN_MS = 60_000


class Sight(Protocol):
    """Which topics members may know of. What it says changes with its `rules_version` only."""

    @property
    def rules_version(self) -> int: ...

    def shows(self, reader: Reader, topic: str) -> bool: ...


class EverythingInSight:
    """No authorizer is configured."""

    rules_version = 0

    def shows(self, reader: Reader, topic: str) -> bool:
        return True


class GroupCoordinator:
    """Groups by name. Those with members have a cell; one that was left, or that only commits
    offsets, has none, and costs no more than its row in the Meta Service."""

    def __init__(self, services: Services, sight: Sight) -> None:
        self.services = services
        self._sight = sight
        self._usage = GroupUsage()
        self.limits = GroupLimits.of(services.config, self._usage)
        self._logged: dict[Limit, int] = {}
        self._configs = GroupConfigs(services)
        self.pending = PendingOffsets(services.meta, services.offsets, services.clock)
        self._cells: dict[str, Cell] = {}
        self._topics = Topics(None, {})
        self._closing = False
        self._sweeper: asyncio.Task[None] | None = None

    # -- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        self.services.configs.listen(self._reconfigure)
        self._reconfigure()
        state = await self.services.meta.snapshot()
        for group in state.members.values():
            cell = self._cell(group.group, self._loaded(group))
            self._cells[group.group] = cell
            cell.arm()
            self._release(cell)
        self._sweeper = asyncio.create_task(self._sweep_forever(), name="group-sweeper")

    def wake_all(self) -> None:
        """Answer everyone who waits for other members, so that they do not hold up a stop."""
        self._closing = True
        for cell in self._cells.values():
            cell.wake()

    async def stop(self) -> None:
        self.wake_all()
        sweeper, self._sweeper = self._sweeper, None
        if sweeper is not None:
            sweeper.cancel()
            await asyncio.wait([sweeper])
        for cell in list(self._cells.values()):
            await cell.stop()

    def _reconfigure(self) -> None:
        self.limits = GroupLimits.of(self.services.config, self._usage)

    # -- groups --------------------------------------------------------------------------------

    @property
    def cells(self) -> Mapping[str, Cell]:
        return self._cells

    def names(self) -> set[str]:
        """Of all groups that have or had members."""
        return {*self.services.meta.state.members, *self._cells}

    def machine(self, name: str) -> Machine | None:
        """The group as it is, to be looked at; None where no members are or were in it."""
        cell = self._cells.get(name)
        if cell is not None:
            return cell.machine
        stored = self.services.meta.state.members.get(name)
        return None if stored is None else self._loaded(stored)

    def find(self, name: str) -> Cell | None:
        """For a request that begins at once."""
        cell = self._cells.get(name)
        if cell is None and (machine := self.machine(name)) is not None:
            cell = self._add(name, machine)
        return cell

    def find_or_make(self, name: str) -> Cell:
        """InvalidName or CapacityExceeded when there can be no such group."""
        cell = self.find(name)
        if cell is None:
            check_group_name(name)
            groups_max = self.services.config.number("meta.groups.max")
            if max(len(self._cells), len(self.services.meta.state.members)) >= groups_max:
                raise CapacityExceeded(f"meta.groups.max is {groups_max}")
            limit = self.limits.reached_by(0, GROUP_BYTES)
            if limit is not None:
                self.warn(name, limit)
                raise CapacityExceeded(f"{limit} is reached")
            cell = self._add(name, ClassicGroup(self.limits))
        return cell

    def _add(self, name: str, machine: Machine) -> Cell:
        cell = self._cells[name] = self._cell(name, machine)
        # Once the request that it is made for has begun: if it has not, no other code will.
        asyncio.get_running_loop().call_soon(self._release, cell)
        return cell

    def _release(self, cell: Cell) -> None:
        """A cell without members and without work: what is stored of the group is loaded when it
        is asked for again, and where nothing is, there never was one."""
        if cell.is_idle and self._cells.get(cell.name) is cell:
            del self._cells[cell.name]
            cell.forget()

    def limits_of(self, name: str) -> GroupLimits:
        """What holds for this group now."""
        return self.limits.over(self._configs.config(name))

    def warn(self, group: str, limit: Limit | None) -> None:
        """Log that a request was refused, if by a limit; not more than a line a minute for each."""
        now_ms = self.services.clock.now_ms()
        if limit is not None and now_ms - self._logged.get(limit, -WARN_MS) >= WARN_MS:
            self._logged[limit] = now_ms
            log.warning("group %r: a member is refused, %s is reached", group[:100], limit)

    def topics(self) -> Topics:
        """What there is now, made anew only after a change."""
        cache = self.services.broker_cache
        revision = (cache.revision, self._sight.rules_version)
        if revision != self._topics.revision:
            infos = {one.name: TopicInfo(one.topic_id, one.partitions) for one in cache.topics()}
            self._topics = Topics(revision, infos, self._sight.shows)
        return self._topics

    async def delete(self, name: str) -> ErrorCode:
        """A group without members, with all its offsets."""
        cell = self.find(name)
        if cell is None:
            if not await self.services.offsets.has_group(name):
                return ErrorCode.GROUP_ID_NOT_FOUND
            await self._forget(name)
            return ErrorCode.NONE
        return await cell.run(lambda now_ms: cell.machine.delete(now_ms))

    # -- storing -------------------------------------------------------------------------------

    async def _store(self, name: str, machine: Machine) -> None:
        if machine.is_dead:
            await self._forget(name)
            self._cells.pop(name, None)
            return
        document = (
            classic_document.dump(machine)
            if isinstance(machine, ClassicGroup)
            else consumer_document.dump(machine)
        )
        await self.services.meta.submit(
            SaveGroup(group=name, kind=machine.kind, epoch=machine.epoch, document=document)
        )

    async def _forget(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self.services.offsets.delete_group(name)
        with contextlib.suppress(NotFound):  # the members, where the offsets are kept elsewhere
            await self.services.meta.submit(DeleteGroup(group=name))

    def _loaded(self, group: GroupMeta) -> Machine:
        now_ms = self.services.clock.now_ms()
        loader = (
            classic_document.load if group.kind == ClassicGroup.kind else consumer_document.load
        )
        return loader(group.document, group.epoch, self.limits_of(group.group), now_ms)

    def _cell(self, name: str, machine: Machine) -> Cell:
        cell = Cell(
            name,
            machine,
            self.services.clock,
            self._store,
            self.limits_of,
            settled,
            self._release,
        )
        if self._closing:
            cell.wake()
        return cell

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
            machine = self.machine(name)
            offsets = await self.services.offsets.committed(name)
            held = {shard for shard in offsets if self.pending.is_pending(name, shard)}
            expired = expiry.expired(offsets, machine, topics, now_ms, self.limits.retention_ms)
            if expired - held:
                await self.services.offsets.delete(name, expired - held)
            nothing_left = offsets.keys() <= expired - held
            if nothing_left and not self.pending.producers(name):
                await self._drop(name)

    async def _drop(self, name: str) -> None:
        """A group that has no members and no offsets."""
        cell = self.find(name)
        if cell is None or cell.machine.state != "Empty" or cell.machine.next_ms() is not None:
            return
        await cell.run(lambda now_ms: cell.machine.delete(now_ms))
