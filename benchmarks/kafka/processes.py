"""What a process used, from /proc."""

from __future__ import annotations

import os
import time
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def parse_cpu_ticks(stat: str) -> int:
    """User and system time of all threads. The name, in brackets, may hold anything."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def cpu_seconds(pid: int) -> float:
    return parse_cpu_ticks(Path(f"/proc/{pid}/stat").read_text()) / TICKS_PER_SECOND


def idle_share(pid: int, seconds: float) -> float:
    """The share of one core that a process takes while nobody asks it for anything."""
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / seconds
