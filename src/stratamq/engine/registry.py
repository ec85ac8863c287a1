"""The shards of one engine by name: opening, creating, deleting, recovering."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from stratamq.engine.commit import ALONE, answer
from stratamq.engine.contract import ShardSpec
from stratamq.engine.executor import Executor
from stratamq.engine.group import answer_future
from stratamq.engine.producers.shard import ProducerLimit
from stratamq.engine.shard import Shard
from stratamq.engine.storage import OpenedStorage, ShardStorage, each
from stratamq.engine.unopened import OpenedShard, UnopenedShards
from stratamq.engine.watermarks import WatermarkSaver
from stratamq.model.counters import TopicTraffic
from stratamq.model.damage import report_damage
from stratamq.model.errors import (
    Closed,
    KVDamaged,
    ShardNotFound,
    ShardUnavailable,
    StorageError,
    StrataError,
)
from stratamq.model.settings.topic import FIXED_SETTINGS
from stratamq.model.topic import TopicConfig
from stratamq.model.types import ShardName, TopicId

logger = logging.getLogger(__name__)

CREATED_AT_ONCE_MAX = 256
"""Shards that are made together. The others wait for the next time."""


MISSING = "the metadata knows it, and its files are missing"

REBUILD_WAIT_S = 5.0
"""How long the index is left alone after it could not be rebuilt."""


class Wanted(NamedTuple):
    """A shard that a caller waits for."""

    spec: ShardSpec
    done: asyncio.Future[None]


class RebuildFailure(NamedTuple):
    """Why the index could not be rebuilt, and when that is tried again, by the loop's clock."""

    reason: str
    retry_at_s: float


class Registry:
    """Shards that are open. One change at a time, except that shards on their way out do not wait
    for each other; look-ups at any time."""

    def __init__(
        self,
        storage: ShardStorage,
        executor: Executor,
        checkpoint_ms: int,
        producers: ProducerLimit,
    ) -> None:
        self._storage, self._executor = storage, executor
        self.watermarks = WatermarkSaver(storage, executor, checkpoint_ms)
        self._producers = producers
        self._shards: dict[ShardName, Shard] = {}
        self.traffic: WeakValueDictionary[TopicId, TopicTraffic] = WeakValueDictionary()
        """By topic, as long as one of its shards is here."""
        self._unavailable: dict[ShardName, str] = {}
        self._poisoned: set[ShardName] = set()
        self._open = self._closing = False
        self._changes = asyncio.Lock()
        self._wanted: list[Wanted] = []
        self._creating: asyncio.Task[None] | None = None
        self._leaving: dict[ShardName, asyncio.Task[None]] = {}
        self._recovering: dict[ShardName, asyncio.Task[bool]] = {}
        self._rebuilding: asyncio.Task[None] | None = None
        self._index_failure: RebuildFailure | None = None
        self._unopened = UnopenedShards(executor.call, self._admit, self.index_is_damaged)
        self._settling: dict[ShardName, asyncio.Task[None]] = {}

    # -- life ----------------------------------------------------------------------------------

    async def open(self) -> None:
        """When it fails, no thread and no file of it is left, so that it can be tried again."""
        assert not self._open, "opened once"
        self._executor.start()
        opening = asyncio.ensure_future(self._executor.call(self._open_all))
        try:
            found, opened = await asyncio.shield(opening)
        except BaseException:
            await asyncio.wait([opening])
            if not opening.cancelled() and opening.exception() is None:
                await self._executor.call(self._storage.close)
            await self._executor.close()
            raise
        for shard, _ in opened:
            self._add(shard)
        await self.watermarks.save_lowered([one.shard for one in opened if _is_lowered(one)])
        self._open = True
        self._unopened.begin(list(found.unopened), found.open_later, self.open_shard)

    def _open_all(self) -> tuple[OpenedStorage, list[OpenedShard]]:
        found = self._storage.open()
        for name, reason in found.unavailable.items():
            self._set_aside(name, reason)
        shards: list[OpenedShard] = []
        for spec, store, mark in found.kept:
            try:
                shards.append(OpenedShard(Shard(spec, store, mark), mark))
            except (OSError, StrataError) as error:
                self._set_aside(spec.name, str(error))
        return found, shards

    def _set_aside(self, name: ShardName, reason: str) -> None:
        """Its files stay as they are, nobody reads or writes it, and its name is not free."""
        report_damage(f"shard {name} is unavailable: {reason}")
        self._unavailable[name] = reason

    async def close(self) -> None:
        """Every step is taken, whatever the others do. The first failure is raised at the end."""
        if not self._open:
            return
        self._closing = True
        await self._unopened.stop()
        while under_way := [
            *self._recovering.values(),
            *self._settling.values(),
            *filter(None, [self._rebuilding]),
        ]:
            await asyncio.wait(under_way)
        async with self._changes:
            self._open = False
            self.watermarks.stop()
            for shard in self._shards.values():
                if shard.flush_timer is not None:
                    shard.flush_timer.cancel()
            if self._leaving:
                await asyncio.wait(self._leaving.values())
            failures: list[Exception] = []
            for step in (self._executor.drain, self.watermarks.save_last, self._close_all):
                try:
                    await step()
                except Exception as error:
                    logger.error("the engine closes: %s", error)
                    failures.append(error)
            await self._executor.close()
            self._shards.clear()
        if failures:
            raise failures[0]

    async def _close_all(self) -> None:
        shards = [shard for shard in self._shards.values() if shard.poison is None]

        def close() -> None:
            try:
                each(shards, lambda shard: shard.producers.save(shard.store))
            finally:
                self._storage.close()

        await self._executor.call(close)

    # -- looking up ----------------------------------------------------------------------------

    def get(self, name: ShardName) -> Shard:
        shard = self._shards.get(name)
        if shard is not None and self._open:
            return shard
        self._check_open()
        if name in self._unopened.specs:
            self._check_can_open(name)
            self._unopened.open_here(name)
            return self.get(name)
        self._check_available(name)
        raise ShardNotFound(f"there is no shard {name}")

    @property
    def opened(self) -> Mapping[ShardName, Shard]:
        return self._shards

    @property
    def unopened(self) -> Collection[ShardName]:
        return self._unopened.specs

    def unavailable(self) -> dict[ShardName, str]:
        """Why: shards whose files are missing or damaged, and those that take no writes."""
        self._check_open()
        found = dict(self._unavailable)
        for name in sorted(self._poisoned):  # writers add to it meanwhile
            shard = self._shards.get(name)
            if shard is not None and shard.poison is not None:
                found[name] = shard.poison
        return found

    def _check_available(self, name: ShardName) -> None:
        if (reason := self._unavailable.get(name)) is not None:
            raise ShardUnavailable(f"shard {name} is unavailable: {reason}")

    def specs(self) -> dict[ShardName, ShardSpec]:
        self._check_open()
        unopened = {name: spec for name, spec in self._unopened.specs.items() if spec is not None}
        return unopened | {name: shard.spec for name, shard in self._shards.items()}

    def _check_open(self) -> None:
        if not self._open:
            raise Closed("the engine is closed")

    # -- shards that are opened when they are used -----------------------------------------------

    def is_unopened(self, name: ShardName) -> bool:
        return name in self._unopened.specs

    async def open_shard(self, name: ShardName) -> None:
        """Open a shard that a start has left closed, without holding up the event loop; `get` would
        do it right there. Whatever is found is known to `get` on return."""
        if name in self._unopened.specs:
            await self._wait_for_index()
            self._check_can_open(name)
            await self._unopened.open(name)
        if (settling := self._settling.get(name)) is not None:
            await asyncio.shield(settling)

    def _check_can_open(self, name: ShardName) -> None:
        self._check_not_closing()
        if self._rebuilding is not None:
            raise ShardUnavailable(f"shard {name} is unavailable: the index is being rebuilt")

    def _admit(
        self,
        name: ShardName,
        wanted: ShardSpec | None,
        outcome: OpenedShard | Exception | None,
    ) -> None:
        """A shard was opened, or could not be. As with those that are opened at a start, it takes
        no writes until a watermark that went down is saved, and it gets the metadata's configs."""
        if isinstance(outcome, Exception):
            self._set_aside(name, str(outcome))
            return
        if outcome is None:
            if wanted is not None:
                self._set_aside(name, MISSING)
            return
        shard, lowered = outcome.shard, _is_lowered(outcome)
        self._add(shard)
        if lowered:
            shard.poison = "its high watermark is not saved yet"
        if lowered or (wanted is not None and wanted != shard.spec):
            task = self._settling[name] = asyncio.create_task(self._settle(shard, lowered, wanted))
            task.add_done_callback(lambda _: self._settling.pop(name))

    async def _settle(self, shard: Shard, lowered: bool, wanted: ShardSpec | None) -> None:
        try:
            if lowered:
                await self.watermarks.save_lowered([shard])
            if wanted is not None:
                await self.create(wanted)
        except StrataError as error:
            logger.error("shard %s was opened with its old configs: %s", shard.name, error)

    # -- changing ------------------------------------------------------------------------------

    async def create(self, spec: ShardSpec) -> None:
        """Those that are asked for while others are made are made together after them. A caller
        that gives up has no shard if it was not begun, and one that can be deleted if it was."""
        if spec.name in self._unopened.specs:
            await self.open_shard(spec.name)
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
        def make() -> list[Shard]:
            stores = self._storage.create(specs)
            return [Shard(spec, store, None) for spec, store in zip(specs, stores, strict=True)]

        for shard in await self._executor.call(make):
            self._add(shard)

    async def _configure(self, shard: Shard, spec: ShardSpec) -> None:
        if spec == shard.spec:
            return
        await self._executor.run(shard, lambda: self._storage.configure(spec, shard.store))
        shard.configure(spec)
        if not spec.replicated:
            answer(shard.commits.lead(ALONE))

    async def delete(self, name: ShardName) -> None:
        """A caller that gives up does not stop it."""
        await self.open_shard(name)
        async with self._changes:
            self._check_open()
            if name in self._unavailable:
                await self._executor.call(lambda: self._storage.discard(name))
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
        self.watermarks.forget(shard)
        self._poisoned.discard(shard.name)
        task = asyncio.create_task(self._destroy(shard))
        self._leaving[shard.name] = task
        task.add_done_callback(lambda _: self._leaving.pop(shard.name))

    async def _destroy(self, shard: Shard) -> None:
        """When its writer is done with it, it needs none: deletions that wait for the same disk
        are quicker together."""
        await self._executor.run(shard, lambda: shard.producers.count_in(ProducerLimit()))
        try:
            await self._executor.call(lambda: self._storage.destroy(shard.spec, shard.store))
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
        self._check_open()
        different: list[ShardSpec] = []
        for spec in specs:
            shard = self._shards.get(spec.name)
            if spec.name in self._unopened.specs:
                self._unopened.specs[spec.name] = spec
            elif shard is None and spec.name not in self._unavailable:
                if self._storage.is_durable(spec):
                    self._set_aside(spec.name, MISSING)
                else:
                    different.append(spec)
            elif shard is not None and shard.spec != spec:
                different.append(spec)
        await asyncio.gather(*map(self.create, different))

    # -- recovering ----------------------------------------------------------------------------

    async def check_files(self) -> None:
        """A shard whose files were removed from outside takes no writes: they would be gone with
        the process. `retry` opens it again when its files are back."""
        shards = [shard for shard in self._shards.values() if shard.poison is None]

        def find_lost() -> list[Shard]:
            return [shard for shard in shards if not self._storage.is_stored(shard.spec)]

        for shard in await self._executor.call(find_lost):
            if not shard.gone:
                shard.poison = "its files were removed while it was open"
                report_damage(f"shard {shard.name} takes no writes: {shard.poison}")

    async def retry(self, spec: ShardSpec, *, repair: bool) -> bool:
        """Open a shard again that is unavailable or takes no writes; whether there was need."""
        await self.open_shard(spec.name)
        if repair and (running := self._recovering.get(spec.name)) is not None:
            await asyncio.wait([running])  # it does not repair
        if not self._is_ailing(spec.name):
            return False
        return await self._alone(spec.name, lambda: self._retry(spec, repair))

    async def recover(self, name: ShardName) -> None:
        await self._alone(name, lambda: self._recover(name))

    async def _alone(self, name: ShardName, work: Callable[[], Coroutine[Any, Any, bool]]) -> bool:
        """One recovery of a shard at a time, which goes on when its callers give up: a second one
        would cut the same files."""
        task = self._recovering.get(name)
        if task is None:
            task = self._recovering[name] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._recovered(name, done))
        return await asyncio.shield(task)

    def _recovered(self, name: ShardName, task: asyncio.Task[bool]) -> None:
        del self._recovering[name]
        if not task.cancelled():
            task.exception()  # perhaps all callers have given up, and no other code asks for it

    def _is_ailing(self, name: ShardName) -> bool:
        shard = self._shards.get(name)
        return name in self._unavailable if shard is None else shard.poison is not None

    async def _retry(self, spec: ShardSpec, repair: bool) -> bool:
        name = spec.name
        if name in self._shards:
            await self._wait_for_index()
            return not self._is_ailing(name) or await self._recover(name)
        async with self._changes:
            self._check_not_closing()
            if name not in self._unavailable:
                return False
            kept = await self._executor.call(lambda: self._storage.retry(spec, repair=repair))
            self._add(await self._executor.call(lambda: Shard(*kept)))
            del self._unavailable[name]
        return True

    async def _recover(self, name: ShardName) -> bool:
        await self._wait_for_index()
        async with self._changes:
            self._check_not_closing()
            shard = self.get(name)
            if shard.half_deleted:  # its folder may be gone, and would be made again, empty
                shard.check_writable()
            await self._reopen(shard)
        return True

    def _check_not_closing(self) -> None:
        if self._closing:
            raise Closed("the engine is being closed")

    async def _reopen(self, shard: Shard) -> None:
        """Read the shard from disk again. A high watermark that goes down with its log is saved
        before the shard takes writes: they are not committed, and must not seem so."""
        shard.poison = shard.poison or "it is being recovered"
        try:
            store = await self._executor.run(
                shard, lambda: self._storage.reopen(shard.spec, shard.store)
            )
            if shard.replicated:
                shard.commits.hide(store.end_offset)
                await self.watermarks.save(shard)
            await self._executor.run(shard, lambda: shard.adopt(store))
        except Exception as error:
            shard.poison = str(error)
            if isinstance(error, KVDamaged):
                self.index_is_damaged()
            raise
        answer(shard.commits.truncated(shard.store.end_offset))
        shard.moved()

    # -- the index -----------------------------------------------------------------------------

    def index_is_damaged(self) -> None:
        """A reader or writer met damage in the index: rebuild it from the logs, once."""
        if self._rebuilding is None and self._open and not self._closing:
            self._rebuilding = asyncio.create_task(self._rebuild_index())

    async def _wait_for_index(self) -> None:
        """No shard can be recovered without it. One that could not be rebuilt is tried again."""
        failure = self._index_failure
        if failure is not None and asyncio.get_running_loop().time() >= failure.retry_at_s:
            self.index_is_damaged()
        if self._rebuilding is not None:
            await asyncio.shield(self._rebuilding)
        if self._index_failure is not None:
            raise StorageError(self._index_failure.reason)

    async def _rebuild_index(self) -> None:
        """No shard takes writes meanwhile; each does again as soon as it has its index."""
        try:
            async with self._changes:
                if self._leaving:  # they have rows in it
                    await asyncio.wait(self._leaving.values())
                shards = [one for one in self._shards.values() if not one.half_deleted]
                await self._rebuild_index_of({shard: shard.poison for shard in shards})
        finally:
            self._rebuilding = None

    async def _rebuild_index_of(self, shards: Mapping[Shard, str | None]) -> None:
        """`shards` with what kept each from writing before."""
        for shard in shards:
            shard.poison = "its index is being rebuilt"
        try:
            await self._executor.drain()
            await self._unopened.settled()
            is_derived = await self._executor.call(self._storage.begin_index)
        except Exception as error:  # whatever it is: the shards must not wait for ever
            reason = f"the index could not be rebuilt: {error}"
            logger.error("%s", reason, exc_info=not isinstance(error, OSError | StrataError))
            retry_at_s = asyncio.get_running_loop().time() + REBUILD_WAIT_S
            self._index_failure = RebuildFailure(reason, retry_at_s)
            for shard in shards:
                shard.poison = reason
            return
        self._index_failure = None
        if not is_derived:
            report_damage("stored rows are damaged: what they held cannot be read")
            for shard, poison in shards.items():
                shard.poison = poison
            return
        report_damage("the index is damaged and is rebuilt from the logs")
        for shard in shards:
            if self._closing:
                return  # the next start goes on
            try:
                await self._reopen(shard)
            except Exception as error:
                logger.error("shard %s could not be opened again: %s", shard.name, error)

    def _add(self, shard: Shard) -> None:
        shard.lane = self._executor.lane_of(shard.name)
        shard.producers.count_in(self._producers)
        shard.report_poison_to(self._poisoned)
        topic_id = TopicId(shard.name.rpartition("_")[0])
        shard.traffic = self.traffic.setdefault(topic_id, shard.traffic)
        self._shards[shard.name] = shard


def _is_lowered(opened: OpenedShard) -> bool:
    """Whether the log of a replica is shorter than when its high watermark was saved."""
    shard, saved = opened
    return shard.replicated and saved is not None and saved > shard.commits.high_watermark


def _with_fixed(spec: ShardSpec, old: TopicConfig) -> ShardSpec:
    """The new spec with those configs of the old one that cannot change."""
    given = {name: value for name, value in spec.config.given.items() if name not in FIXED_SETTINGS}
    given |= {name: value for name, value in old.given.items() if name in FIXED_SETTINGS}
    return replace(spec, config=TopicConfig.of(given))
