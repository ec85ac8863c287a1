"""Checks that only a node's own machine can make: `stratamq doctor` there makes them, and so does
the node itself for `stratamq doctor --server`. They change nothing."""

from __future__ import annotations

import resource
import stat
from collections.abc import Callable
from pathlib import Path

from stratamq.engine.inspection import inspect, inspect_database
from stratamq.model.config import NodeConfig
from stratamq.model.errors import NotFound
from stratamq.model.findings import CheckResult, Finding
from stratamq.node import descriptors
from stratamq.node.data_dir import read_damage
from stratamq.node.layout import META_FOLDER, OFFSETS_FOLDER, SECRET_FILE
from stratamq.node.server import is_in_use

OTHERS_BITS = stat.S_IRWXG | stat.S_IRWXO


def check_permissions(config: NodeConfig) -> Finding:
    folder = config.data_dir
    if not folder.is_dir():
        return Finding(CheckResult.OK, "a new data folder is for its owner alone")
    mode = stat.S_IMODE(folder.stat().st_mode)
    if not mode & OTHERS_BITS:
        return Finding(CheckResult.OK, "the data folder is for its owner alone")
    open_files = [path.name for path in (folder / SECRET_FILE,) if _is_for_others(path)]
    what = f"others may read {', '.join(open_files)} in" if open_files else "others may look into"
    return Finding(CheckResult.WARN, f"{what} {folder}: chmod -R go-rwx {folder}")


def check_open_files(config: NodeConfig) -> Finding:
    wanted = descriptors.wanted(config)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= wanted:
        return Finding(CheckResult.OK, f"{wanted} wanted, allowed")
    shares = descriptors.share_out(hard, config)
    connections = shares.connections_max(config.number("kafka.connections.max"))
    advice = f"raise `ulimit -Hn`, or {shares.files_max} files and {connections} connections it is"
    return Finding(CheckResult.WARN, f"{wanted} wanted, {hard} allowed: {advice}")


def check_damage(config: NodeConfig) -> Finding:
    """What a node has found since its last start, and what can be seen in its folders."""
    folder, is_running = config.data_dir, is_in_use(config.data_dir)
    found = [*read_damage(folder), *inspect(folder, is_running=is_running)]
    for name in (META_FOLDER, OFFSETS_FOLDER):
        found += inspect_database(folder / name, is_running=is_running, rows=True)
    if not found:
        return Finding(CheckResult.OK, "none known")
    lines = "".join(f"\n        {text}" for text in dict.fromkeys(found))
    return Finding(
        CheckResult.FAIL, f"{len(dict.fromkeys(found))} found; see docs/damage.md{lines}"
    )


def _is_for_others(path: Path) -> bool:
    return path.exists() and bool(stat.S_IMODE(path.stat().st_mode) & OTHERS_BITS)


MACHINE_CHECKS: dict[str, Callable[[NodeConfig], Finding]] = {
    "permissions": check_permissions,
    "open files": check_open_files,
    "stored data": check_damage,
}


def machine_check(config: NodeConfig, name: str) -> Finding:
    """One of them by its name; NotFound when there is none of that name."""
    if name not in MACHINE_CHECKS:
        raise NotFound(f"no check is called {name[:100]!r}: {', '.join(MACHINE_CHECKS)}")
    return MACHINE_CHECKS[name](config)
