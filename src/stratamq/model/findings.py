"""What `stratamq doctor` finds, on this machine or of a running node."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

GIB = 1 << 30
FREE_BYTES_WARN = 5 * GIB
FREE_BYTES_FAIL = GIB // 4


class CheckResult(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    result: CheckResult
    text: str


def free_space(free_bytes: int, place: str = "") -> Finding:
    text = f"{free_bytes / GIB:.1f} GiB free" + (f" in {place}" if place else "")
    if free_bytes < FREE_BYTES_FAIL:
        return Finding(CheckResult.FAIL, text)
    return Finding(CheckResult.WARN if free_bytes < FREE_BYTES_WARN else CheckResult.OK, text)
