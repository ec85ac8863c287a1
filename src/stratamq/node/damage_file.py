"""The damage that a running node has found, in a file that `stratamq doctor` reads.

    {"at": "2026-01-31T12:00:00+00:00", "found": ".../00000000000000000045.log: missing; ..."}

A line each, in `{data_dir}/damage.jsonl`. A start begins the file again: what is still damaged is
found again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from stratamq.log.disk import Disk
from stratamq.model.damage import LOGGER, forget_reports
from stratamq.node.own_file import check_own_file

FILE = "damage.jsonl"
BYTES_MAX = 1 << 20
"""A longer file is not written to any more: the log goes on."""


class DamageFile(logging.Handler):
    """Appends what is logged as damage. A full disk costs the line and nothing else."""

    def __init__(self, disk: Disk, data_dir: Path) -> None:
        super().__init__(logging.ERROR)
        self._disk, self._path = disk, data_dir / FILE

    def emit(self, record: logging.LogRecord) -> None:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="seconds")
        line = json.dumps({"at": at, "found": record.getMessage()})
        with suppress(OSError):
            file = self._disk.open(self._path, create=True)
            if (end := file.size()) < BYTES_MAX:
                file.write([line.encode() + b"\n"], end)


@contextmanager
def damage_file(disk: Disk, data_dir: Path) -> Iterator[None]:
    """Keep the file while the node runs; its lines stay when the node stops."""
    check_own_file(disk, data_dir / FILE)
    disk.unlink(data_dir / FILE)
    forget_reports()
    handler = DamageFile(disk, data_dir)
    LOGGER.addHandler(handler)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)


def read_damage(data_dir: Path) -> list[str]:
    """What the node on this folder has found since it was started last."""
    try:
        lines = (data_dir / FILE).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found: list[str] = []
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            found.append(str(json.loads(line)["found"]))
    return found
