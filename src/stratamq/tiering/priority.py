"""Work in the background gets what nobody else wants of the processors and the interpreter."""

from __future__ import annotations

import contextlib
import os
import time

NICENESS = 19
MOMENT_S = 0.0002


def put_last(pid: int = 0) -> None:
    """Behind everybody: it runs when nobody else would, and makes way at once. Done from outside
    as soon as it is there, it covers what the process imports, too."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
    if hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


def let_compete(pid: int) -> None:
    """For what has waited for too long: on a machine that is never idle it would wait for ever. It
    stays less important than others."""
    if hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def make_way() -> None:
    """Between the calls of a thread. One that goes from one brief call to the next has the
    interpreter back before whoever waits for it has woken up, and those who are served wait for
    tens of milliseconds."""
    time.sleep(MOMENT_S)
