"""`stratamq server`: a node in this process, until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import sys

import uvloop

from stratamq.cli import logs
from stratamq.cli.failing import fail
from stratamq.model.config import NodeConfig
from stratamq.model.errors import StrataError
from stratamq.node.server import run_node

YOUNG_OBJECTS_MAX = 10_000
"""Requests under way are thousands of objects, and none of them is garbage."""

YOUNG_COLLECTIONS_MAX = 4
"""After so many, what survived them is looked at once more: about 10 ms for all of it."""


def run_server(config: NodeConfig) -> None:
    """Start a node with everything embedded.

    Prints one line that begins with `ready` when it is. Ctrl-C stops it cleanly; twice, at once.
    """
    logs.setup(config)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(run_node(config, _announce))
        except (StrataError, OSError) as error:
            raise fail(error) from None


def _announce(line: str) -> None:
    """Flushed at once: a script that waits for the line must not wait for a buffer."""
    _spare_what_stays()
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _spare_what_stays() -> None:
    """The collector never looks again at what the start has made: a tenth of a small request."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, YOUNG_COLLECTIONS_MAX)
    gc.enable()
