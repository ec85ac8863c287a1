"""The shards of one engine by name: opening, creating, deleting, recovering."""

from __future__ import annotations

import asyncio
import logging
from asyncio import TimerHandle
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from stratamq.engine.commit import ALONE, answer
from stratamq.engine.contract import ShardSpec
from stratamq.engine.executor import Executor, answer_future
from stratamq.engine.keeper import Keeper
from stratamq.engine.producers_shard import PRODUCERS_MAX, ProducerLimit
from stratamq.engine.shard import Shard
from stratamq.model.damage import report_damage
from stratamq.model.errors import (
    Closed,
    KVDamaged,
    ShardNotFound,
    ShardUnavailable,
    StrataError,
)
from stratamq.model.topic import FIXED_SETTINGS, TopicConfig
from stratamq.model.types import Offset, ShardName

logger = logging.getLogger(__name__)


CREATED_AT_ONCE_MAX = 256
"""Shards that are made together. The others wait for the next time."""


class Wanted(NamedTuple):
    """A shard that somebody waits for."""

    spec: ShardSpec
    done: asyncio.Future[None]


class Registry:
    """Shards that are open. One change at a time, except that shards on their way out do not wait
    for each other; look-ups at any time."""

    def __init__(
        self,
        keeper: Keeper,
        executor: Executor,
        checkpoint_ms: int,
        producers_max: int = PRODUCERS_MAX,
    ) -> None:
        self._keeper, self._executor = keeper, executor
        self._checkpoint_ms = checkpoint_ms
        self._producers = ProducerLimit(producers_max)
        self._shards: dict[ShardName, Shard] = {}
        self._unavailable: dict[ShardName, str] = {}
        self._open = False
        self._changes, self._saves = asyncio.Lock(), asyncio.Lock()
        self._wanted: list[Wanted] = []
        self._creating: asyncio.Task[None] | None = None
        self._leaving: dict[ShardName, asyncio.Task[None]] = {}
        self._unsaved: set[Shard] = set()
        self._checkpoint: TimerHandle | None = None
        self._saving: asyncio.Task[None] | None = None
        self._rebuilding: asyncio.Task[None] | None = None

    # -- life ----------------------------------------------------------------------------------

    async def open(self) -> None:
        assert not self._open, "opened once"
        self._executor.start()
        lowered: list[Shard] = []
        for shard, mark in await self._executor.call(self._open_all):
            self._add(shard)
            if shard.replicated and mark is not None and mark > shard.commits.high_watermark:
                lowered.append(shard)
        await self._save(lowered)
        self._open = True

    def _open_all(self) -> list[tuple[Shard, Offset | None]]:
        opened = self._keeper.open()
        for name, reason in opened.unavailable.items():
            self._set_aside(name, reason)
        shards: list[tuple[Shard, Offset | None]] = []
        for spec, store, mark in opened.kept:
            try:
                shards.append((Shard(spec, store, mark), mark))
            except (OSError, StrataError) as error:
                self._set_aside(spec.name, str(error))
        return shards

    def _set_aside(self, name: ShardName, reason: str) -> None:
        """Its files stay as they are, nobody reads or writes it, and its name is not free."""
        report_damage(f"shard {name} is unavailable: {reason}")
        self._unavailable[name] = reason

    async def close(self) -> None:
        if not self._open:
            return
        if self._rebuilding is not None:
            await self._rebuilding
        async with self._changes:
            self._open = False
            if self._checkpoint is not None:
                self._checkpoint.cancel()
            for shard in self._shards.values():
                if shard.flush_timer is not None:
                    shard.flush_timer.cancel()
            if self._leaving:
                await asyncio.wait(self._leaving.values())
            await self._executor.drain()
            if self._saving is not None:
                await self._saving
            await self._save_watermarks()
            await self._executor.call(self._close_all)
            await self._executor.close()
            self._shards.clear()

    def _close_all(self) -> None:
        for shard in self._shards.values():
            if shard.poison is None:
                shard.producers.save(shard.store)
        self._keeper.close()

    # -- looking up ----------------------------------------------------------------------------

    def get(self, name: ShardName) -> Shard:
        shard = self._shards.get(name)
        if shard is not None and self._open:
            return shard
        self._check_open()
        self._check_available(name)
        raise ShardNotFound(f"there is no shard {name}")

    def unavailable(self) -> dict[ShardName, str]:
        """Why: shards whose files are missing or damaged, and those that take no writes."""
        self._check_open()
        poisoned = {
            name: shard.poison for name, shard in self._shards.items() if shard.poison is not None
        }
        return self._unavailable | poisoned

    def _check_available(self, name: ShardName) -> None:
        if (reason := self._unavailable.get(name)) is not None:
            raise ShardUnavailable(f"shard {name} is unavailable: {reason}")

    def specs(self) -> dict[ShardName, ShardSpec]:
        self._check_open()
        return {name: shard.spec for name, shard in self._shards.items()}

    def _check_open(self) -> None:
        if not self._open:
            raise Closed("the engine is closed")

    # -- changing ------------------------------------------------------------------------------

    async def create(self, spec: ShardSpec) -> None:
        """Those that are asked for while others are made are made together after them. A caller
        that gives up has no shard if it was not begun, and one that can be deleted if it was."""
        wanted = Wanted(spec, asyncio.get_running_loop().create_future())
        self._wanted.append(wanted)
        if self._creating is None:
            self._creating = asyncio.create_task(self._create_wanted())
        await wanted.done

    async def _create_wanted(self) -> None:
        try:
            while self._wanted:
                async with self._changes:
                    taken = self._wanted[:CREATED_AT_ONCE_MAX]
                    del self._wanted[:CREATED_AT_ONCE_MAX]
                    await self._create_together([one for one in taken if not one.done.done()])
        finally:
            self._creating = None

    async def _create_together(self, wanted: list[Wanted]) -> None:
        """Those that cannot be made together are tried one by one, so that each fails alone. A name
        that is there, or was asked for twice, is a matter of configs."""
        new: dict[ShardName, Wanted] = {}
        for one in wanted:
            if one.spec.name not in self._shards and one.spec.name not in self._unavailable:
                new.setdefault(one.spec.name, one)
        if leaving := [self._leaving[name] for name in new if name in self._leaving]:
            await asyncio.wait(leaving)
        if self._open and len(new) > 1:
            with suppress(Exception):
                await self._make([one.spec for one in new.values()])
        for one in wanted:
            await self._answer(one)

    async def _answer(self, wanted: Wanted) -> None:
        try:
            await self._create(wanted.spec)
        except asyncio.CancelledError:
            wanted.done.cancel()
            raise
        except BaseException as error:  # nobody is left waiting
            answer_future(wanted.done, error)
        else:
            answer_future(wanted.done, None)

    async def _create(self, spec: ShardSpec) -> None:
        self._check_open()
        self._check_available(spec.name)
        shard = self._shards.get(spec.name)
        if shard is None:
            await self._make([spec])
        elif spec != shard.spec:
            await self._configure(shard, _with_fixed(spec, shard.spec.config))

    async def _make(self, specs: list[ShardSpec]) -> None:
        stores = await self._executor.call(lambda: self._keeper.create(specs))
        for spec, store in zip(specs, stores, strict=True):
            self._add(Shard(spec, store, None))

    async def _configure(self, shard: Shard, spec: ShardSpec) -> None:
        if spec == shard.spec:
            return
        await self._executor.run(shard, lambda: self._keeper.configure(spec, shard.store))
        shard.configure(spec)
        if not spec.replicated:
            answer(shard.commits.lead(ALONE))

    async def delete(self, name: ShardName) -> None:
        """A caller that gives up does not stop it."""
        async with self._changes:
            self._check_open()
            if name in self._unavailable:
                await self._executor.call(lambda: self._keeper.discard(name))
                del self._unavailable[name]
            shard = self._shards.pop(name, None)
            if shard is not None:
                self._dismiss(shard)
        if name in self._leaving:
            await asyncio.shield(self._leaving[name])

    def _dismiss(self, shard: Shard) -> None:
        """From now on nobody finds it, and nobody writes to it."""
        shard.gone = True
        shard.moved()
        if shard.flush_timer is not None:
            shard.flush_timer.cancel()
        self._unsaved.discard(shard)
        task = asyncio.create_task(self._destroy(shard))
        self._leaving[shard.name] = task
        task.add_done_callback(lambda _: self._leaving.pop(shard.name))

    async def _destroy(self, shard: Shard) -> None:
        """When its writer is done with it, it needs none: deletions that wait for the same disk
        are quicker together."""
        await self._executor.run(shard, lambda: shard.producers.count_in(ProducerLimit()))
        try:
            await self._executor.call(lambda: self._keeper.destroy(shard.spec, shard.store))
        except Exception as error:
            self._keep_for_retry(shard, error)
            raise

    def _keep_for_retry(self, shard: Shard, error: Exception) -> None:
        """The shard is not gone, and what is left of it is not to be used: only another deletion
        is."""
        shard.gone, shard.half_deleted = False, True
        shard.poison = f"the deletion of {shard.name} failed half-way: {error}"
        self._shards[shard.name] = shard

    async def restore(self, specs: Sequence[ShardSpec]) -> None:
        """Make the shards agree with the metadata after a start. One that should be on disk and is
        not is unavailable: an empty one in its place would give its offsets out again."""
        for spec in specs:
            if spec.name in self._unavailable:
                continue
            if spec.name not in self._shards and self._keeper.is_durable(spec):
                self._set_aside(spec.name, "the metadata knows it, and its files are missing")
        known = self.specs()
        await asyncio.gather(
            *(
                self.create(spec)
                for spec in specs
                if spec.name not in self._unavailable and known.get(spec.name) != spec
            )
        )

    async def retry(self, spec: ShardSpec, *, repair: bool) -> bool:
        """Open a shard again that is unavailable or takes no writes; whether there was need."""
        name = spec.name
        if name in self._shards:
            if self._shards[name].poison is None:
                return False
            await self.recover(name)
            return True
        async with self._changes:
            if name not in self._unavailable:
                return False
            kept = await self._executor.call(lambda: self._keeper.retry(spec, repair=repair))
            self._add(await self._executor.call(lambda: Shard(*kept)))
            del self._unavailable[name]
        return True

    async def recover(self, name: ShardName) -> None:
        async with self._changes:
            shard = self.get(name)
            if shard.half_deleted:  # its folder may be gone, and would be made again, empty
                shard.check_writable()
            try:
                await self._executor.run(shard, lambda: self._reopen(shard))
            except KVDamaged:
                self.index_is_damaged()
                raise
            answer(shard.commits.truncated(shard.store.end_offset))
            shard.moved()

    def index_is_damaged(self) -> None:
        """A reader or writer met damage in the index: rebuild it from the logs, once."""
        if self._rebuilding is None and self._open:
            self._rebuilding = asyncio.create_task(self._rebuild_index())

    async def _rebuild_index(self) -> None:
        """No shard takes writes meanwhile; each does again as soon as it has its index."""
        try:
            async with self._changes:
                shards = list(self._shards.values())
                report_damage("the index is damaged and is rebuilt from the logs")
                for shard in shards:
                    shard.poison = "its index is being rebuilt"
                await self._executor.drain()
                if await self._executor.call(self._keeper.begin_index):
                    for shard in shards:
                        await self._reopen_alone(shard)
        except StrataError as error:
            logger.error("the index could not be rebuilt: %s", error)
        finally:
            self._rebuilding = None

    async def _reopen_alone(self, shard: Shard) -> None:
        try:
            await self._executor.run(shard, lambda: self._reopen(shard))
        except StrataError as error:
            shard.poison = str(error)
            logger.error("shard %s could not be opened again: %s", shard.name, error)

    def _reopen(self, shard: Shard) -> None:
        shard.adopt(self._keeper.reopen(shard.spec, shard.store))

    def _add(self, shard: Shard) -> None:
        shard.lane = self._executor.lane_of(shard.name)
        shard.producers.count_in(self._producers)
        self._shards[shard.name] = shard

    # -- high watermarks of replicas -----------------------------------------------------------

    def watermark_moved(self, shard: Shard) -> None:
        """To be saved some time soon: after a crash a replica may know less, never more."""
        self._unsaved.add(shard)
        if self._checkpoint is None:
            loop = asyncio.get_running_loop()
            self._checkpoint = loop.call_later(self._checkpoint_ms / 1000, self._start_saving)

    async def lower_watermark(self, shard: Shard, end: Offset) -> None:
        """One that goes down is saved before anything is cut: what is written there next is not
        committed, and must not seem so after a crash."""
        if end < shard.commits.high_watermark:
            shard.commits.hide(end)
            await self.save_watermark(shard)

    async def save_watermark(self, shard: Shard) -> None:
        if shard.replicated:
            await self._save([shard])

    def _start_saving(self) -> None:
        self._checkpoint = None
        self._saving = asyncio.create_task(self._save_watermarks())

    async def _save_watermarks(self) -> None:
        unsaved, self._unsaved = self._unsaved, set()
        try:
            await self._save(list(unsaved))
        except StrataError as error:
            logger.warning("high watermarks were not saved: %s", error)

    async def _save(self, shards: list[Shard]) -> None:
        """One at a time, each with the watermarks of its moment: an older one never comes last."""
        async with self._saves:
            marks = {shard.name: shard.committed() for shard in shards if not shard.gone}
            if marks:
                await self._executor.call(lambda: self._keeper.save_high_watermarks(marks))


def _with_fixed(spec: ShardSpec, old: TopicConfig) -> ShardSpec:
    """The new spec with those configs of the old one that cannot change."""
    given = {name: value for name, value in spec.config.given.items() if name not in FIXED_SETTINGS}
    given |= {name: value for name, value in old.given.items() if name in FIXED_SETTINGS}
    return replace(spec, config=TopicConfig.of(given))
