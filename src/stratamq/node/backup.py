"""Making a backup of a running node, and of the folder of a stopped one. See docs/backup.md.

A running node's backup goes in these steps; until the last one, its folder is called `.partial`:

| step       | what is done                                                                      |
|------------|-----------------------------------------------------------------------------------|
| opening    | storages and shards that a start has left closed are opened                       |
| offsets    | with `offset.store=cache`, group offsets are stored and copied                    |
| index      | the index of keys and tags is copied; recovery adds what the logs have besides    |
| the moment | in one turn of the event loop: the state of the metadata, and where each shard    |
|            | ends for its readers. From then until after the next step, no compaction begins   |
|            | and nothing is offloaded                                                          |
| records    | each shard is copied up to its end (`stratamq.engine.backup`)                     |
| metadata   | the state is written as rows in a file. Topics whose shards were deleted          |
|            | meanwhile are on their way out in it, and the first start finishes that           |
| checksums  | every file is read and synced; the manifest is written, and the folder renamed    |

Why one turn is enough: an answer is sent, and metadata that depends on a record is written, only
after the event loop has learned that the record is stored. So the metadata of that turn knows of no
record above those ends, and everything acknowledged is below them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from stratamq.broker.kafka.backup import BackupProgress, FinishedBackup
from stratamq.broker.kafka.errors import Refused
from stratamq.log import names
from stratamq.log.disk import RealDisk, replace_file, storage_error
from stratamq.log.freeing import clear_away
from stratamq.meta.apply import apply
from stratamq.meta.state import MetaState
from stratamq.meta.store import read_state, write_rows
from stratamq.meta.topics import DeleteTopic, TopicPhase
from stratamq.model.config import NodeConfig
from stratamq.model.errors import (
    AlreadyExists,
    CapacityExceeded,
    Closed,
    InvalidConfig,
    InvalidInput,
    NotFound,
    StorageError,
    StrataError,
)
from stratamq.model.settings.topic import StorageType
from stratamq.model.shard import shard_name, split_shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import Offset, ShardName
from stratamq.model.version import own_version
from stratamq.node.backup_folder import (
    DATA_FOLDER,
    META_ROWS_FILE,
    PARTIAL,
    Manifest,
    copy_file,
    copy_tree,
    describe,
    finish,
    make_folders,
)
from stratamq.node.core import NodeCore
from stratamq.node.data_dir import DataDirLock
from stratamq.node.identity import cluster_id
from stratamq.node.layout import (
    CLUSTER_ID_FILE,
    DAMAGE_FILE,
    LOCK_FILE,
    META_FOLDER,
    OFFSETS_FOLDER,
    OWN_NAMES,
    REVISION_FILE,
    SECRET_FILE,
)
from stratamq.node.metadata_check import revision_file
from stratamq.tiering.stores.opening import COLD_FOLDER, options_of
from stratamq.wire.kafka.protocol import ErrorCode

log = logging.getLogger(__name__)

Ends = dict[ShardName, Offset]
"""Where the logs of shards end in the backup."""

NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


class BackupRun:
    """One backup of a running node, under way or ended. `step` and `done_bytes` say how far it is;
    `stop` ends its threads soon."""

    def __init__(self, core: NodeCore, partial: Path) -> None:
        self._core, self._partial, self._data = core, partial, partial / DATA_FOLDER
        self.path = partial.with_name(partial.name.removesuffix(PARTIAL))
        self.step, self.done_bytes = "opening", 0
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True

    def _on_bytes(self, count: int) -> None:
        self.done_bytes += count
        if self._stopping:
            raise Closed("the node stops, and its backup with it")

    async def make(self) -> FinishedBackup:
        """What was written of one that fails is removed. Errors are StrataError."""
        try:
            # Where this fails, the folder is not ours, and stays.
            await asyncio.to_thread(make_folders, self._partial)
        except OSError as error:
            raise storage_error(f"{self._partial}", error) from error
        try:
            return await self._make()
        except BaseException as error:
            await asyncio.to_thread(clear_away, self._partial)
            if isinstance(error, OSError):
                raise storage_error(f"{self._partial}", error) from error
            if isinstance(error, StrataError) or not isinstance(error, Exception):
                raise
            log.exception("the backup %s failed in a way that was not foreseen", self.path)
            raise StorageError(f"{self.path} was not made: {error!r}") from error

    async def _make(self) -> FinishedBackup:
        core = self._core
        for storage in {str(one.config.storage_name) for one in core.broker_cache.topics()}:
            await core.drivers.driver(storage)
        for engine in list(core.engines.values()):
            await engine.open_all()
        self.step = "offsets"
        await core.groups.back_up(self._data / OFFSETS_FOLDER)
        self.step = "index"
        for engine in list(core.engines.values()):
            await engine.copy_index(self._data)
        self.step = "records"
        with contextlib.ExitStack() as held:
            # The moment. Nothing is awaited from here to `ends`.
            for engine in core.engines.values():
                held.enter_context(engine.held_for_backup())
            taken_ms, state = core.doors.clock.now_ms(), core.meta.state
            ends = self._ends(state)
            gone = await self._copy_shards(ends)
            await asyncio.to_thread(self._copy_own_files)
        self.step = "metadata"
        state = self._without(state, gone)
        unavailable = [
            name
            for kind, shards in ends.items()
            for name in core.engines[kind].unavailable_shards()
            if name in shards
        ]
        return await asyncio.to_thread(self._finish, state, taken_ms, unavailable)

    async def _copy_shards(self, ends: Mapping[StorageType, Ends]) -> set[ShardName]:
        """Those that were deleted meanwhile are returned."""
        gone: set[ShardName] = set()
        for kind, shards in ends.items():
            gone |= await self._core.engines[kind].back_up(self._data, shards, self._on_bytes)
        return gone

    def _ends(self, state: MetaState) -> dict[StorageType, Ends]:
        """The shards of each engine that are in the backup, with their ends. One that cannot be
        opened has none: all its files are copied."""
        ends: dict[StorageType, Ends] = {}
        known = {kind: engine.committed_ends() for kind, engine in self._core.engines.items()}
        for topic in ready_topics(state):
            if topic.config.storage_name in known:
                kind = StorageType(topic.config.storage_name)
                for partition in range(topic.partitions):
                    name = shard_name(topic.topic_id, partition)
                    end = known[kind].get(name, Offset(names.OFFSET_MAX))
                    ends.setdefault(kind, {})[name] = end
        return ends

    def _copy_own_files(self) -> None:
        data_dir = self._core.config.data_dir
        for name in (CLUSTER_ID_FILE, SECRET_FILE):
            if (data_dir / name).exists():
                copy_file(data_dir / name, self._data / name, self._on_bytes)
        copy_store(self._core.config, self._data, self._on_bytes, links=True)

    def _without(self, state: MetaState, gone: set[ShardName]) -> MetaState:
        """The state with topics on their way out whose shards were deleted while the others were
        copied. StorageError when a shard is gone and its topic is not."""
        for topic_id in {split_shard_name(name)[0] for name in gone}:
            now = self._core.meta.state.topics.get(topic_id)
            if now is not None and now.phase is TopicPhase.READY:
                raise StorageError(f"shards of topic {now.topic.name!r} could not be copied")
            state, _ = apply(state, DeleteTopic(topic_id=topic_id))
        return state

    def _finish(
        self, state: MetaState, taken_ms: int, unavailable: list[ShardName]
    ) -> FinishedBackup:
        write_rows(self._data / META_ROWS_FILE, state)
        replace_file(RealDisk(), self._data / REVISION_FILE, revision_file(state))
        self.step, self.done_bytes = "checksums", 0
        config, doors = self._core.config, self._core.doors
        cluster = cluster_id(config.data_dir, doors)
        manifest = manifest_of(
            config, self._data, state, cluster, taken_ms, list(unavailable), self._on_bytes
        )
        finish(self._partial, manifest)
        return finished_of(manifest)


def finished_of(manifest: Manifest) -> FinishedBackup:
    """Without the list of files: a node remembers its last backup, and there may be many."""
    return FinishedBackup(
        taken_ms=manifest.taken_ms,
        topics=manifest.topics,
        shards=manifest.shards,
        files=len(manifest.files),
        size_bytes=manifest.size_bytes,
        unavailable=manifest.unavailable,
        without_records=manifest.without_records,
        store=manifest.store,
        objects=manifest.objects,
    )


def ready_topics(state: MetaState) -> list[Topic]:
    return [one.topic for one in state.topics.values() if one.phase is TopicPhase.READY]


def store_is_inside(config: NodeConfig) -> bool:
    return options_of(config).url == (config.data_dir.absolute() / COLD_FOLDER).as_uri()


def copy_store(
    config: NodeConfig, data: Path, on_bytes: Callable[[int], None], *, links: bool
) -> None:
    """An object store inside the data folder is part of the backup; any other is not."""
    cold = config.data_dir / COLD_FOLDER
    if store_is_inside(config) and cold.is_dir():
        copy_tree(cold, data / COLD_FOLDER, on_bytes, links=links)


def manifest_of(
    config: NodeConfig,
    data: Path,
    state: MetaState,
    cluster: str,
    taken_ms: int,
    unavailable: list[str],
    on_bytes: Callable[[int], None],
) -> Manifest:
    """Everything is read and synced for it."""
    topics, storages = ready_topics(state), frozenset(StorageType)
    folders, files = describe(data, on_bytes)
    objects = 0
    if not store_is_inside(config):
        objects = sum(
            (file.parquet is not None) + (file.log is not None)
            for some in state.files.values()
            for file in some
        )
    return Manifest(
        version=own_version(),
        cluster_id=cluster,
        node_id=config.number("node.id"),
        taken_ms=taken_ms,
        topics=len(topics),
        shards=sum(topic.partitions for topic in topics),
        unavailable=sorted(unavailable),
        without_records=sorted(
            topic.name
            for topic in topics
            if topic.config.storage_name not in storages
            or (
                topic.config.storage_name == StorageType.MEMORY
                and not topic.config.flag("memory.persist")
            )
        ),
        store=options_of(config).url if objects else "",
        objects=objects,
        folders=folders,
        files=files,
    )


class NodeBackups:
    """`Backups` of a running node: one at a time, below `backup.folder`."""

    def __init__(self, core: NodeCore) -> None:
        self._core = core
        self._run: BackupRun | None = None
        self._task: asyncio.Task[FinishedBackup] | None = None
        self._looking: asyncio.Task[Path] | None = None

    async def begin(self, name: str) -> None:
        self._check_is_free()
        if self._looking is not None and not self._looking.done():
            raise CapacityExceeded("a backup is just being begun; one at a time")
        # A network's file system may not answer: that holds up one thread, also if the caller
        # gives up, and never the event loop.
        self._looking = asyncio.create_task(asyncio.to_thread(self._folder_for, name))
        partial = await asyncio.shield(self._looking)
        self._check_is_free()
        self._run = run = BackupRun(self._core, partial)
        self._task = asyncio.create_task(run.make(), name="backup")
        self._task.add_done_callback(self._ended)

    def _check_is_free(self) -> None:
        if self._task is not None and not self._task.done():
            assert self._run is not None, "a task has a run"
            raise CapacityExceeded(f"a backup is under way: {self._run.path}; one at a time")

    def _folder_for(self, name: str) -> Path:
        """What the backup is called while it is written."""
        config = self._core.config
        if not config.text("backup.folder"):
            raise InvalidConfig(
                "this node makes no backups: its setting backup.folder names no folder for them"
            )
        parent = Path(config.text("backup.folder")).resolve()
        if Path(name).is_absolute() and Path(name).parent.resolve() == parent:
            name = Path(name).name
        if not NAME.fullmatch(name) or name.endswith(PARTIAL):
            raise InvalidInput(
                f"{name!r} is not a plain name: a backup is a folder in {parent} on the node's"
                " machine, called by letters, digits, '.', '_' and '-'"
            )
        if parent.is_relative_to(config.data_dir.resolve()):
            raise InvalidConfig(f"backup.folder is {parent}, inside the data folder")
        for path in (parent / name, parent / (name + PARTIAL)):
            if path.exists():
                raise AlreadyExists(f"{path} is there already, and nothing is overwritten")
        return parent / (name + PARTIAL)

    def _ended(self, task: asyncio.Task[FinishedBackup]) -> None:
        assert self._run is not None, "a task has a run"
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            log.error("the backup %s failed: %s", self._run.path, error)
        else:
            log.info("the backup %s is made", self._run.path)

    async def wait(self, name: str, timeout_ms: int) -> BackupProgress:
        run, task = self._run, self._task
        if run is None or task is None or run.path.name != Path(name).name:
            raise Refused(
                ErrorCode.RESOURCE_NOT_FOUND,
                f"no backup {name!r} was begun since the node was started",
            )
        await asyncio.wait([task], timeout=timeout_ms / 1000)
        finished = None
        if task.done():
            if task.cancelled():
                raise Closed("the node stops, and its backup with it")
            finished = task.result()
        return BackupProgress(str(run.path), run.step, run.done_bytes, finished)

    async def stop(self) -> None:
        """End a backup that is under way; what was written of it is removed."""
        if self._run is not None and self._task is not None and not self._task.done():
            self._run.stop()
            await asyncio.wait([self._task])


LEFT_OUT = {LOCK_FILE, DAMAGE_FILE}


def back_up_stopped(
    config: NodeConfig, target: Path, now_ms: int, on_bytes: Callable[[int], None]
) -> Manifest:
    """Copy the data folder of a node that does not run, as it is: after a crash, the start after a
    restore recovers it."""
    partial = target.with_name(target.name + PARTIAL)
    for path in (target, partial):
        if path.exists():
            raise AlreadyExists(f"{path} is there already, and nothing is overwritten")
    if target.resolve().is_relative_to(config.data_dir.resolve()):
        raise StorageError(f"{target} is inside the data folder")
    if not (config.data_dir / META_FOLDER).is_dir():
        raise NotFound(f"{config.data_dir} is not the data folder of a node")
    lock = DataDirLock(config.data_dir)
    lock.acquire()
    try:
        data = make_folders(partial)
    except OSError as error:
        lock.release()
        raise storage_error(f"{partial}", error) from error
    try:
        for name in sorted(OWN_NAMES - LEFT_OUT):
            source = config.data_dir / name
            if source.is_dir():
                copy_tree(source, data / name, on_bytes, links=False)
            elif source.exists():
                copy_file(source, data / name, on_bytes)
        copy_store(config, data, on_bytes, links=False)
        state, cluster = read_state(data / META_FOLDER), cluster_id(config.data_dir)
        manifest = manifest_of(config, data, state, cluster, now_ms, [], on_bytes)
        finish(partial, manifest)
        return manifest
    except OSError as error:
        clear_away(partial)
        raise storage_error(f"{partial}", error) from error
    except BaseException:
        clear_away(partial)
        raise
    finally:
        lock.release()
