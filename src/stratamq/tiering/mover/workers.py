"""Converters as the node sees them: processes that are started when needed and stopped when idle.

Conversion keeps a core busy for seconds. In a process of its own it takes no turn of the
interpreter from producers, and a crash or a lack of memory is the error of one segment.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import stratamq
from stratamq.model import errors
from stratamq.model.errors import Closed, StorageError, StrataError
from stratamq.tiering.mover.conversion import (
    Conversion,
    Converted,
    Failure,
    Progress,
    decode_answer,
    encode_request,
)
from stratamq.tiering.priority import put_last

MODULE = "stratamq.tiering.mover.worker"
IDLE_S = 30.0
LAST_WORDS_BYTES = 400

OnProgress = Callable[[int], None]
"""Told how many bytes of the source are done, from another thread."""


class Converters:
    """Up to `count` conversions at once; more wait. Use it from one event loop."""

    def __init__(self, count: int, *, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._room = asyncio.Semaphore(count)
        self._threads = ThreadPoolExecutor(count, "tier-convert")
        self._idle: list[tuple[_Process, asyncio.TimerHandle]] = []
        self._busy: set[_Process] = set()
        self._closed = False

    @property
    def processes(self) -> list[int]:
        """Their ids, of busy and idle ones."""
        running = [*self._busy, *(process for process, _ in self._idle)]
        return [process.pid for process in running if process.pid]

    async def convert(
        self, work: Conversion, on_progress: OnProgress = lambda _: None
    ) -> Converted:
        """The files that `work` asks for. What the converter raised is raised here; StorageError
        when it died. Cancelling it ends its process."""
        async with self._room:
            if self._closed:
                raise Closed("the converters are closed")
            process = self._take()
            loop = asyncio.get_running_loop()
            self._busy.add(process)
            try:
                made = await loop.run_in_executor(self._threads, process.run, work, on_progress)
            except BaseException:
                process.kill()
                raise
            finally:
                self._busy.discard(process)
            self._keep(process)
        if isinstance(made, Failure):
            raise as_error(made)
        return made

    async def close(self) -> None:
        """Ends what is under way, too."""
        self._closed = True
        for process in self._busy:
            process.kill()
        while self._idle:
            process, timer = self._idle.pop()
            timer.cancel()
            process.kill()
        await asyncio.to_thread(self._threads.shutdown)

    def _take(self) -> _Process:
        if not self._idle:
            return _Process()
        process, timer = self._idle.pop()
        timer.cancel()
        return process

    def _keep(self, process: _Process) -> None:
        if self._closed:
            process.kill()
            return
        timer = asyncio.get_running_loop().call_later(self._idle_s, self._retire, process)
        self._idle.append((process, timer))

    def _retire(self, process: _Process) -> None:
        self._idle = [kept for kept in self._idle if kept[0] is not process]
        process.kill()


class _Process:
    """One converter. `run` blocks, on a thread; `kill` may come from another one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._words: BinaryIO | None = None
        self._killed = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def run(self, work: Conversion, on_progress: OnProgress) -> Converted | Failure:
        process = self._process = self._process or self._start()
        assert process.stdin
        assert process.stdout
        if self._killed:
            self.kill()
        try:
            process.stdin.write(encode_request(work))
            process.stdin.flush()
            for line in process.stdout:
                said = decode_answer(line)
                if not isinstance(said, Progress):
                    return said
                on_progress(said.done_bytes)
        except (OSError, ValueError):
            pass  # it died, or was ended; a line may be cut off
        raise StorageError(f"the converter {self._end()}")

    def kill(self) -> None:
        """And see that it is gone: it has nothing that anyone will miss."""
        self._killed = True
        process = self._process
        if process is None:
            return
        process.kill()
        process.wait()
        for file in (process.stdin, process.stdout, self._words):
            with contextlib.suppress(OSError):  # what could not be sent is of no use now
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
        return process

    def _end(self) -> str:
        """How it ended, in words."""
        if self._killed or self._process is None or self._words is None:
            return "was stopped"
        code = self._process.wait()
        how = f"was killed by {_signal(-code)}" if code < 0 else f"ended with status {code}"
        self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, self._words.tell() - LAST_WORDS_BYTES))
        words = self._words.read().decode(errors="replace").strip()
        return f"{how}: {words}" if words else how


def _signal(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _environment() -> dict[str, str]:
    """Ours, so that the same code is found, and without the store's credentials: a converter reads
    and writes local files."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    here = str(Path(stratamq.__file__).parents[1])
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}


def as_error(failure: Failure) -> StrataError:
    """Errors of ours keep their kind; anything else is the converter's own."""
    kind = getattr(errors, failure.kind, None)
    if isinstance(kind, type) and issubclass(kind, StrataError):
        with contextlib.suppress(TypeError):  # some carry more than a message
            return kind(failure.message)
    return StorageError(f"the converter failed: {failure.kind}: {failure.message}")
