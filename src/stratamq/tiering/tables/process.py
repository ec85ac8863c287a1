"""The table writer as the node sees it: a process that is started when needed and stopped when
idle.

Iceberg's metadata is read and written in Python, and a table with many files takes its time. In a
process of its own that takes no turn of the interpreter from producers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import stratamq
from stratamq.lake.tables.errors import TableError
from stratamq.model import errors
from stratamq.model.errors import Closed, StorageError, StrataError, TimedOut
from stratamq.tiering.priority import put_last
from stratamq.tiering.tables.requests import (
    NO_CATALOG,
    Failure,
    Request,
    TableOptions,
    Written,
    decode_answer,
    encode_options,
    encode_request,
)

MODULE = "stratamq.tiering.tables.worker"
IDLE_S = 60.0
TIMEOUT_S = 900.0
"""A table of very many files that has to be made anew takes minutes."""

LAST_WORDS_BYTES = 400


class TableWriter:
    """One request at a time; more wait. Use it from one event loop."""

    def __init__(
        self, options: TableOptions, *, idle_s: float = IDLE_S, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._options = options
        self._idle_s, self._timeout_s = idle_s, timeout_s
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "tables")
        self._process: _Process | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def may_have_tables(self) -> bool:
        """Whether there is a catalog to look into."""
        uri, path = self._options.catalog_uri, self._options.catalog_path
        return uri != NO_CATALOG and (bool(uri) or path.exists())

    async def ask(self, request: Request) -> Written:
        """What the worker raised is raised here; StorageError when it died."""
        async with self._turn:
            if self._closed:
                raise Closed("the table writer is closed")
            if self._timer:
                self._timer.cancel()
            answer = await self._ask(request)
            self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._end)
        if isinstance(answer, Failure):
            raise as_error(answer)
        return answer

    async def close(self) -> None:
        """Ends what is under way, too."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
        self._end()
        await asyncio.to_thread(self._thread.shutdown)

    async def _ask(self, request: Request) -> Written | Failure:
        process = self._process = self._process or _Process(self._options)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await loop.run_in_executor(self._thread, process.run, request)
        except TimeoutError:
            self._end()
            raise TimedOut(f"the table writer took more than {self._timeout_s:g} s") from None
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()


class _Process:
    """`run` blocks, on a thread; `kill` may come from another one."""

    def __init__(self, options: TableOptions) -> None:
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._words: BinaryIO | None = None
        self._killed = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def run(self, request: Request) -> Written | Failure:
        process = self._process = self._process or self._start()
        assert process.stdin
        assert process.stdout
        if self._killed:
            self.kill()
        with contextlib.suppress(OSError, ValueError):  # it died, or was ended
            process.stdin.write(encode_request(request))
            process.stdin.flush()
            if line := process.stdout.readline():
                return decode_answer(line)
        raise StorageError(f"the table writer {self._how_it_ended()}")

    def kill(self) -> None:
        """And see that it is gone."""
        self._killed = True
        process = self._process
        if process is None:
            return
        process.kill()
        process.wait()
        for file in (process.stdin, process.stdout, self._words):
            with contextlib.suppress(OSError):
                if file:
                    file.close()

    def _start(self) -> subprocess.Popen[bytes]:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env=_environment(),
        )
        put_last(process.pid)
        assert process.stdin
        with contextlib.suppress(OSError):  # it is said when it is asked
            process.stdin.write(encode_options(self._options))
        return process

    def _how_it_ended(self) -> str:
        if self._killed or self._process is None or self._words is None:
            return "was stopped"
        code = self._process.wait()
        self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, self._words.tell() - LAST_WORDS_BYTES))
        words = self._words.read().decode(errors="replace").strip()
        return f"ended with status {code}: {words}" if words else f"ended with status {code}"


def _environment() -> dict[str, str]:
    """Ours, with the store's credentials and the catalog's: it talks to both."""
    here = str(Path(stratamq.__file__).parents[1])
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def as_error(failure: Failure) -> StrataError:
    """Errors of ours keep their kind."""
    if failure.kind == TableError.__name__:
        return TableError(failure.message)
    kind = getattr(errors, failure.kind, None)
    if isinstance(kind, type) and issubclass(kind, StrataError):
        with contextlib.suppress(TypeError):  # some carry more than a message
            return kind(failure.message)
    return StorageError(f"{failure.kind}: {failure.message}")
