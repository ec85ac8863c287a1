"""Processes that work in the background get what nobody else wants of the processors."""

from __future__ import annotations

import contextlib
import os

NICENESS = 19


def put_last(pid: int = 0) -> None:
    """Behind everybody: it runs when nobody else would, and makes way at once. Done from outside
    as soon as it is there, it covers what the process imports, too."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
    if hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
