"""Whether the metadata fits what is stored: an older `meta/`, and shards it does not know.

How far the metadata had got is noted outside `meta/`, so that an older `meta/` is noticed:

    c1c6a3f1 revision 1234 producer-id 2000

One line with its checksum, in `{data_dir}/meta-revision`: a revision of the metadata that was
durable, and the next producer id, which the revision does not count; nor does it count groups. A
`meta/` below either was restored from an older copy, or has lost the end of its log. A node that
started on it would not know its newest topics, and clients would create them again, from offset 0.

Stored shards that the metadata does not know are reported at start, by name, and left alone. A
shard is registered before it is stored and forgotten after it is deleted, so there is none unless
metadata was lost, or a folder was brought from elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from stratamq.adapter.drivers import StorageDriverManager
from stratamq.engine.layout import ROCKSDB_FOLDER, stored_shards
from stratamq.engine.segment.folders import TOPICS_SHARD
from stratamq.log import names
from stratamq.log.checked_lines import decode_lines, encode_lines
from stratamq.log.disk import Disk, replace_file
from stratamq.meta.state import MetaState
from stratamq.model.damage import report_damage
from stratamq.model.errors import StorageError, StrataError
from stratamq.model.settings.topic import StorageType
from stratamq.model.types import ShardName
from stratamq.node.data_dir import read_own_file
from stratamq.node.layout import REVISION_FILE

log = logging.getLogger(__name__)

WRITE_INTERVAL_S = 1.0
"""While the metadata changes, the file is written this often; the first change is noted at once."""

_LINE = re.compile(r"revision ([0-9]{1,19}) producer-id ([0-9]{1,19})")


class Reached(NamedTuple):
    """How far metadata is. Neither number ever goes down."""

    revision: int = 0
    next_producer_id: int = 0

    def up_to(self, other: Reached) -> Reached:
        return Reached(*map(max, self, other))


class MetaRevisionFile:
    """`check` once, then `moved` for each state that is durable, `stop` when there are no more.

    The file is never ahead of the metadata, also not after a power cut. After a crash it may be
    some changes short of it."""

    def __init__(self, disk: Disk, data_dir: Path, *, interval_s: float = WRITE_INTERVAL_S) -> None:
        self._disk, self._path = disk, data_dir / REVISION_FILE
        self._interval_s = interval_s
        self._noted = self._reached = Reached()
        self._writing: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def check(self, meta: Path, state: MetaState) -> None:
        """StorageError when the metadata, read from `meta`, was further once."""
        noted = await asyncio.to_thread(self._read)
        found = _reached_by(state)
        if noted is None:
            if state.topics:
                report_damage(
                    f"{self._path} was missing or damaged: whether {meta} is the newest could not"
                    " be checked; it is written again"
                )
        elif found != found.up_to(noted):
            raise StorageError(
                f"{meta} is older than it was: it is at revision {found.revision} and producer id"
                f" {found.next_producer_id}, and {self._path} says that revision {noted.revision}"
                f" and producer id {noted.next_producer_id} were stored. Topics may be missing from"
                f" it. Bring the newer {meta} back, or, to accept what is lost, remove {self._path}"
            )
        else:
            self._noted = self._reached = noted
        self.moved(state)  # a crash may have left the file some changes short

    def _read(self) -> Reached | None:
        content = read_own_file(self._disk, self._path)
        if content is None:
            return None
        lines = decode_lines(content).lines
        if len(lines) == 1 and (found := _LINE.fullmatch(lines[0])):
            return Reached(int(found[1]), int(found[2]))
        self._disk.rename(self._path, self._path.with_name(REVISION_FILE + names.DAMAGED))
        return None

    def moved(self, state: MetaState) -> None:
        """Note that this much is durable. The file is written soon after."""
        self._reached = self._reached.up_to(_reached_by(state))
        if self._reached != self._noted and self._writing is None:
            self._writing = asyncio.create_task(self._write_while_it_moves())

    async def _write_while_it_moves(self) -> None:
        try:
            while (reached := self._reached) != self._noted:
                content = _encode(reached)
                await asyncio.to_thread(replace_file, self._disk, self._path, content)
                self._noted = reached
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._interval_s):
                        await self._stopping.wait()
        except (OSError, StorageError) as error:
            log.error("%s could not be written: %s; the next change tries again", self._path, error)
        finally:
            self._writing = None

    async def stop(self) -> None:
        """On return the last revision is noted."""
        self._stopping.set()
        if self._writing is not None:
            await self._writing


def revision_file(state: MetaState) -> bytes:
    """The content of the file for metadata that is at this state."""
    return _encode(_reached_by(state))


def _encode(reached: Reached) -> bytes:
    line = f"revision {reached.revision} producer-id {reached.next_producer_id}"
    return encode_lines([line])


def _reached_by(state: MetaState) -> Reached:
    return Reached(state.revision, state.next_producer_id)


UNKNOWN = "the metadata knows no such shard; its records stay, and no client can read them"


async def report_unknown_shards(
    disk: Disk, data_dir: Path, state: MetaState, drivers: StorageDriverManager
) -> None:
    """Report shards the metadata does not know. Called when engines of all known topics are
    open."""
    rocksdb = data_dir / ROCKSDB_FOLDER

    def is_unknown(name: str) -> bool:
        return TOPICS_SHARD.fullmatch(name) is not None and ShardName(name) not in state.shards

    for path in stored_shards(disk, data_dir, is_unknown):
        if path != rocksdb:
            report_damage(f"{path}: {UNKNOWN}")
            continue
        for shard in await _shards_in_rocksdb(drivers):
            if shard not in state.shards:
                report_damage(f"{rocksdb}, shard {shard}: {UNKNOWN}")


async def _shards_in_rocksdb(drivers: StorageDriverManager) -> list[ShardName]:
    """The store is opened for this even if no known topic is in it."""
    try:
        driver = await drivers.driver(StorageType.ROCKSDB.value)
        return sorted({**await driver.list_shard(), **driver.unavailable_shards()})
    except StrataError:
        return []  # reported: its topics are unavailable
