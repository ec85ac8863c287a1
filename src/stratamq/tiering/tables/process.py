"""The table writer as the node sees it: a process that is started when needed and stopped when
idle.

Iceberg's metadata is read and written in Python, and a table with many files takes its time. In a
process of its own that does not hold the node's GIL.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from stratamq.lake.tables.errors import TableError
from stratamq.model.errors import Closed, TimedOut
from stratamq.tiering.background import Background, Urgency, as_error
from stratamq.tiering.tables.requests import (
    NO_CATALOG,
    Request,
    TableFailure,
    TableOptions,
    Written,
    decode_answer,
    encode_options,
    encode_request,
)

NAME = "the table writer"
MODULE = "stratamq.tiering.tables.worker"
IDLE_S = 60.0
TIMEOUT_S = 900.0
"""Rewriting a table of very many files takes minutes."""


class TableWriter:
    """One request at a time; more wait. Use it from one event loop."""

    def __init__(
        self,
        options: TableOptions,
        *,
        urgency: Urgency | None = None,
        idle_s: float = IDLE_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._options, self._urgency = options, urgency or Urgency()
        self._idle_s, self._timeout_s = idle_s, timeout_s
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "tables")
        self._process: Background | None = None
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
                raise Closed(f"{NAME} is closed")
            if self._timer:
                self._timer.cancel()
            answer = await self._ask(request)
            self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._retire)
        if isinstance(answer, TableFailure):
            raise as_error(NAME, *answer, TableError)
        return answer

    async def close(self) -> None:
        """Close, and end the work under way, too."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
        self._end()
        await asyncio.to_thread(self._thread.shutdown)

    async def _ask(self, request: Request) -> Written | TableFailure:
        if self._process is not None and not self._urgency.fits(self._process):
            self._retire()
        if self._process is None:  # with credentials: it talks to the store and to the catalog
            greeting = encode_options(self._options)
            self._process = Background(NAME, MODULE, credentials=True, greeting=greeting)
        process = self._process
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                with self._urgency.working(process):
                    return await loop.run_in_executor(self._thread, _run, process, request)
        except TimeoutError:
            self._end()
            raise TimedOut(f"{NAME} took more than {self._timeout_s:g} s") from None
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def _retire(self) -> None:
        """Stop the idle process, on the thread: freeing its memory takes a while."""
        process, self._process = self._process, None
        if process is not None:
            self._thread.submit(process.kill)


def _run(process: Background, request: Request) -> Written | TableFailure:
    process.say(encode_request(request))
    return process.hear(decode_answer)
