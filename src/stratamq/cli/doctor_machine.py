"""What `stratamq doctor` checks of this machine and of the data folder of its node.

Each check looks at one thing and changes nothing.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from stratamq.cli.java import JAVA_MAJOR_MIN, java_major
from stratamq.model.config import NodeConfig
from stratamq.model.findings import CheckResult, Finding, free_space
from stratamq.node.machine_checks import check_damage, check_open_files, check_permissions
from stratamq.node.server import is_in_use

CLOCK_AHEAD_S_MAX = 60
BORN_S = 1_735_689_600
"""2025-01-01, before the first release: a clock that shows less is wrong."""


def check_data_dir(config: NodeConfig) -> Finding:
    folder = config.data_dir
    place = _nearest_existing(folder)
    if not place.is_dir():
        return Finding(CheckResult.FAIL, f"{place} is not a folder")
    try:
        with tempfile.TemporaryFile(dir=place) as probe:
            probe.write(b"stratamq")
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return Finding(CheckResult.FAIL, f"{place} cannot be written ({error.strerror})")
    note = "writable" if place == folder else f"not there yet; {place} is writable"
    return Finding(CheckResult.OK, f"{folder} ({note})")


def check_lock(config: NodeConfig) -> Finding:
    if is_in_use(config.data_dir):
        return Finding(CheckResult.OK, f"a node is running on {config.data_dir}")
    return Finding(CheckResult.OK, "no other node uses the data folder")


def check_free_space(config: NodeConfig) -> Finding:
    free = shutil.disk_usage(_nearest_existing(config.data_dir)).free
    return free_space(free)


def check_clock(config: NodeConfig) -> Finding:
    """Retention goes by the clock: a slow one keeps data longer, a fast one deletes too soon."""
    now = time.time()
    if now < BORN_S:
        return Finding(CheckResult.FAIL, f"the clock shows {time.strftime('%Y-%m-%d')}")
    newest = _newest_write(config.data_dir)
    if newest > now + CLOCK_AHEAD_S_MAX:
        late_s = int(newest - now)
        return Finding(
            CheckResult.WARN, f"the clock is {late_s} s behind the newest file of the node"
        )
    return Finding(CheckResult.OK, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)))


def check_java(config: NodeConfig) -> Finding:
    major = java_major()
    if major is None:
        return Finding(CheckResult.WARN, f"not found; Spark pipelines need Java {JAVA_MAJOR_MIN}")
    if major < JAVA_MAJOR_MIN:
        return Finding(CheckResult.WARN, f"Java {major}; Spark pipelines need {JAVA_MAJOR_MIN}")
    return Finding(CheckResult.OK, f"Java {major}")


CHECKS: dict[str, Callable[[NodeConfig], Finding]] = {
    "data folder": check_data_dir,
    "permissions": check_permissions,
    "lock": check_lock,
    "free space": check_free_space,
    "open files": check_open_files,
    "clock": check_clock,
    "stored data": check_damage,
    "java": check_java,
}


def _nearest_existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.absolute().parents) if each.exists())


def _newest_write(folder: Path) -> float:
    """The latest change of what lies directly in the data folder; 0 when there is nothing."""
    if not folder.is_dir():
        return 0
    return max((each.lstat().st_mtime for each in folder.iterdir()), default=0)
