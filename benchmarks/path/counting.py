"""Counts the Python calls that a node makes for one request, and the files that it passes.

A real node runs in this process and a raw client on a thread of its own asks it the same question
again and again. Every thread of the node is watched by the interpreter's profile hook; a step of a
coroutine counts as a call, and so does every call into the standard library.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, NamedTuple

import uvloop

import stratamq
from stratamq.model.config import load
from stratamq.node.core import NodeCore
from stratamq.node.kafka import KafkaFront

SOURCE = str(Path(stratamq.__file__).parent)
ROUNDS = 200
WARM_UP = 50

Ask = Callable[[], None]
"""Sends one request and waits for its answer."""

Prepare = Callable[[str, int, ExitStack], Ask]
"""Takes the node's address, and what is to be closed in the end."""


class Way(NamedTuple):
    """What one request costs, on the average of many."""

    calls: float
    files: list[str]
    functions: Counter[str]

    @property
    def steps(self) -> list[tuple[str, float]]:
        return [(name, count / ROUNDS) for name, count in self.functions.most_common()]


class Watch:
    """The profile hook of all threads that are started while it is installed."""

    def __init__(self) -> None:
        self.counts: Counter[CodeType] = Counter()
        self.on = False

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and self.on:
            self.counts[frame.f_code] += 1

    def way(self) -> Way:
        functions: Counter[str] = Counter()
        files = set()
        for code, count in self.counts.items():
            functions[f"{_short(code.co_filename)}:{code.co_qualname}"] += count
            if count >= ROUNDS // 2 and code.co_filename.startswith(SOURCE):
                files.add(_short(code.co_filename))
        return Way(sum(self.counts.values()) / ROUNDS, sorted(files), functions)


def _short(filename: str) -> str:
    return filename.removeprefix(SOURCE + "/")


def count(prepare: Prepare, settings: dict[str, Any] | None = None) -> Way:
    """`prepare` is called on the client's thread with the node's address."""
    watch = Watch()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        with TemporaryDirectory() as folder:
            uvloop.run(_count(watch, Path(folder), prepare, settings or {}))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return watch.way()


async def _count(
    watch: Watch,
    folder: Path,
    prepare: Prepare,
    settings: dict[str, Any],
) -> None:
    config = load(flags={"data.dir": str(folder), "kafka.port": 0, **settings})
    core = NodeCore(config)
    await core.start()
    front = KafkaFront(config, core)
    address = await front.start()
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def client() -> None:
        sys.setprofile(None)
        try:
            with ExitStack() as closing:
                ask = prepare(address.host, address.port, closing)
                for _ in range(WARM_UP):
                    ask()
                watch.on = True
                for _ in range(ROUNDS):
                    ask()
                watch.on = False
        finally:
            loop.call_soon_threadsafe(done.set)

    thread = threading.Thread(target=client)
    thread.start()
    await done.wait()
    thread.join()
    await front.stop()
    await core.stop()
