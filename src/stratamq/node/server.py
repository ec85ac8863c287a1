"""A node as a process: configuration in, ready line out, signals obeyed.

The order is fixed: the console starts, so that a slow start can be watched, then the core, then
each front; a stop takes the same steps in reverse. The first SIGINT or SIGTERM asks for a graceful
stop, which may take `shutdown.grace.ms`; after that, or at a second signal, the process ends at
once. Either way the next start finds everything that was acknowledged as safe. SIGHUP asks for the
recovery of shards that are unavailable, and for what the fronts read from files, such as
certificates, to be read again.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from stratamq.console.health import STORAGE, Health
from stratamq.model.config import NodeConfig
from stratamq.node.console import OFF, ConsoleFront
from stratamq.node.core import NodeCore
from stratamq.node.descriptors import raise_limit, warn_if_few
from stratamq.node.garbage import bound_free_memory, long_lived_frozen
from stratamq.node.kafka import KAFKA, Address, KafkaFront
from stratamq.node.layout import LOCK_FILE
from stratamq.node.supervisor import Supervisor

log = logging.getLogger("stratamq.node")

EXIT_FORCED = 1
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Core(Protocol):
    """Storage and metadata: what every front stands on."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def recover(self) -> None: ...


class Listening(Protocol):
    """`start` returns when clients can connect, `stop` when none is served."""

    async def start(self) -> Address: ...

    async def stop(self) -> None: ...


class Front(Listening, Protocol):
    """A protocol's listener."""

    async def reload(self) -> None:
        """Read again what comes from files that may have been replaced."""


async def run_node(config: NodeConfig, announce: Callable[[str], None]) -> None:
    """A whole node: its console, its core and all fronts."""
    raise_limit()
    bound_free_memory()
    core = NodeCore(config)
    warn_if_few(core.descriptors, config)
    core.configs.listen(lambda: _apply_dynamic(config))
    kafka, health = KafkaFront(config, core), Health(STORAGE, KAFKA)
    console = (
        None if config.number("console.port") == OFF else ConsoleFront(config, health, core, kafka)
    )
    await serve(config, core, [kafka], announce, health, console)


def _apply_dynamic(config: NodeConfig) -> None:
    """What of the process follows from settings that may be altered while it runs."""
    logging.getLogger("stratamq").setLevel(config.text("log.level").upper())


async def serve(
    config: NodeConfig,
    core: Core,
    fronts: Sequence[Front],
    announce: Callable[[str], None],
    health: Health | None = None,
    console: Listening | None = None,
) -> None:
    """Run a node until it is stopped; `announce` gets the ready line."""
    health = health or Health()
    with _stop_by_signals(config.number("shutdown.grace.ms")) as stop:
        async with contextlib.AsyncExitStack() as started:
            last = []
            if console is not None:
                last = [await console.start()]
                started.push_async_callback(console.stop)
            await core.start()
            health.started(STORAGE)
            started.push_async_callback(core.stop)
            running: list[Front] = []
            started.enter_context(_reload_by_signal(core, running))
            addresses = []
            for front in fronts:
                addresses.append(await front.start())
                health.started(addresses[-1].name)
                started.push_async_callback(front.stop)
                running.append(front)
            line = ready_line(config, [*addresses, *last])
            log.info("started", extra={"fields": {"data": str(config.data_dir)}})
            announce(line)
            with long_lived_frozen(), Supervisor().watched(line):
                await stop.wait()
            health.stopping()
    log.info("stopped")


def ready_line(config: NodeConfig, addresses: Sequence[Address]) -> str:
    """`ready kafka=127.0.0.1:9092 ... data=/srv/mq node=1`: the fronts that run, no others."""
    fronts = [str(address) for address in addresses]
    return " ".join(
        ["ready", *fronts, f"data={config.data_dir.resolve()}", f"node={config.number('node.id')}"]
    )


def is_in_use(data_dir: Path) -> bool:
    """Whether a living process holds the data folder."""
    path = data_dir / LOCK_FILE
    try:
        with path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


@contextlib.contextmanager
def _stop_by_signals(grace_ms: int) -> Iterator[asyncio.Event]:
    """An event that the first signal sets. From then on the process has `grace_ms` left."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    deadline = threading.Timer(grace_ms / 1000, _end_at_once, ["shutdown.grace.ms has passed"])
    deadline.daemon = True  # a thread, since the event loop may be what hangs

    def obey(name: str) -> None:
        if stop.is_set():
            _end_at_once(f"a second {name}")
        log.info("stopping", extra={"fields": {"signal": name}})
        stop.set()
        deadline.start()

    for number in SIGNALS:
        loop.add_signal_handler(number, obey, number.name)
    try:
        yield stop
    finally:
        deadline.cancel()
        for number in SIGNALS:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _reload_by_signal(core: Core, fronts: Sequence[Front]) -> Iterator[None]:
    """SIGHUP asks the node to recover what is unavailable, and its fronts to read their files
    again; one such round at a time."""
    loop, alone = asyncio.get_running_loop(), asyncio.Lock()
    tasks: set[asyncio.Task[None]] = set()

    async def reload() -> None:
        async with alone:
            for front in fronts:
                await front.reload()
            log.info("recovering what is unavailable")
            await core.recover()

    def begin() -> None:
        task = loop.create_task(reload(), name="reload")
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGHUP, begin)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for task in tasks:
            task.cancel()


def _end_at_once(reason: str) -> None:
    """No clean-up, no waiting for threads: what a crash is, and as safe as one."""
    log.error("ended at once", extra={"fields": {"reason": reason}})
    os._exit(EXIT_FORCED)
