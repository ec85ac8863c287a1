"""Converters as the node sees them: processes that are started when needed and stopped when idle.

Conversion keeps a core busy for seconds. In a process of its own it takes no turn of the
interpreter from producers, and a crash or a lack of memory is the error of one segment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from stratamq.model.errors import Closed
from stratamq.tiering.background import Background, Urgency, as_error, let_compete
from stratamq.tiering.converter.requests import (
    Conversion,
    ConversionFailure,
    ConversionProgress,
    Converted,
    decode_answer,
    encode_request,
)

NAME = "the converter"
MODULE = "stratamq.tiering.converter.worker"
IDLE_S = 30.0
PATIENCE_S = 60.0
"""What takes longer is starved by others, and becomes a little more important."""

OnProgress = Callable[[int], None]
"""Called from another thread with the number of bytes of the source that are done."""


class Converters:
    """Runs up to `count` conversions at once; more wait. Use it from one event loop."""

    def __init__(
        self, count: int, *, idle_s: float = IDLE_S, patience_s: float = PATIENCE_S
    ) -> None:
        self.urgency = Urgency()
        self._idle_s, self._patience_s = idle_s, patience_s
        self._room = asyncio.Semaphore(count)
        self._threads = ThreadPoolExecutor(count, "tier-convert")
        self._idle: list[tuple[Background, asyncio.TimerHandle]] = []
        self._busy: set[Background] = set()
        self._closed = False

    @property
    def processes(self) -> list[int]:
        """The ids of the processes, busy and idle."""
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
            patience = loop.call_later(self._patience_s, _hurry, process)
            try:
                with self.urgency.working(process):
                    made = await loop.run_in_executor(
                        self._threads, _run, process, work, on_progress
                    )
            except BaseException:
                process.kill()
                raise
            finally:
                patience.cancel()
                self._busy.discard(process)
            self._keep(process)
        if isinstance(made, ConversionFailure):
            raise as_error(NAME, *made)
        return made

    async def close(self) -> None:
        """Close, and end the work under way, too."""
        self._closed = True
        for process in self._busy:
            process.kill()
        while self._idle:
            process, timer = self._idle.pop()
            timer.cancel()
            process.kill()
        await asyncio.to_thread(self._threads.shutdown)

    def _take(self) -> Background:
        while self._idle:
            process, timer = self._idle.pop()
            timer.cancel()
            if self.urgency.fits(process):
                return process
            self._threads.submit(process.kill)
        return Background(NAME, MODULE)

    def _keep(self, process: Background) -> None:
        if self._closed:
            process.kill()
            return
        timer = asyncio.get_running_loop().call_later(self._idle_s, self._retire, process)
        self._idle.append((process, timer))

    def _retire(self, process: Background) -> None:
        self._idle = [one for one in self._idle if one[0] is not process]
        self._threads.submit(process.kill)  # it takes a while to go, with all its memory


def _hurry(process: Background) -> None:
    if process.pid:
        let_compete(process.pid)


def _run(
    process: Background, work: Conversion, on_progress: OnProgress
) -> Converted | ConversionFailure:
    """Run a conversion. Blocks; called on a thread."""
    process.say(encode_request(work))
    while isinstance(said := process.hear(decode_answer), ConversionProgress):
        on_progress(said.done_bytes)
    return said
