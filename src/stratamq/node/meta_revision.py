"""How far the metadata had got, noted outside `meta/`, so that an older `meta/` is noticed.

    c1c6a3f1 revision 1234

One line with its checksum, in `{data_dir}/meta-revision`: the revision of a change that was durable
and that must not be lost unnoticed (see `MetaService`). A `meta/` below it was restored from an
older copy, or has lost the end of its log. A node that started on it would not know its newest
topics, and clients would create them again, from offset 0.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from pathlib import Path

from stratamq.log import names
from stratamq.log.checked_lines import decode_lines, encode_lines
from stratamq.log.disk import RealDisk, replace_file
from stratamq.meta.state import MetaState
from stratamq.model.damage import report_damage
from stratamq.model.errors import StorageError
from stratamq.node.own_file import read_own_file

log = logging.getLogger(__name__)

FILE = "meta-revision"
WRITE_INTERVAL_S = 1.0
"""While the metadata changes, the file is written this often; the first change is noted at once."""

_LINE = re.compile(r"revision ([0-9]{1,19})")


class MetaRevisionFile:
    """`check` once, then `moved` for each change that is durable, `stop` when there are no more.

    The file is never ahead of the metadata, also not after a power cut. After a crash it may be
    some changes short of it."""

    def __init__(self, data_dir: Path, *, interval_s: float = WRITE_INTERVAL_S) -> None:
        self._path = data_dir / FILE
        self._interval_s = interval_s
        self._noted = self._revision = 0
        self._writing: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def check(self, meta: Path, state: MetaState) -> None:
        """StorageError when the metadata, read from `meta`, was further once."""
        noted = await asyncio.to_thread(self._read)
        if noted is None:
            if state.topics:
                report_damage(
                    f"{self._path} was missing or damaged: whether {meta} is the newest could not"
                    " be checked; it is written again"
                )
                self.moved(state.revision)
            return
        if state.revision < noted:
            raise StorageError(
                f"{meta} is older than it was: it is at revision {state.revision}, and {self._path}"
                f" says that revision {noted} was stored. Topics may be missing from it."
                f" Bring the newer {meta} back, or, to accept what is lost, remove {self._path}"
            )
        self._noted = self._revision = noted

    def _read(self) -> int | None:
        content = read_own_file(self._path)
        if content is None:
            return None
        lines = decode_lines(content).lines
        if len(lines) == 1 and (found := _LINE.fullmatch(lines[0])):
            return int(found[1])
        self._path.replace(self._path.with_name(FILE + names.DAMAGED))
        return None

    def moved(self, revision: int) -> None:
        """The metadata is durable up to here. The file follows."""
        self._revision = max(self._revision, revision)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_while_it_moves())

    async def _write_while_it_moves(self) -> None:
        try:
            while (revision := self._revision) > self._noted:
                line = encode_lines([f"revision {revision}"])
                await asyncio.to_thread(replace_file, RealDisk(), self._path, line)
                self._noted = revision
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
