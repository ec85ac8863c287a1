"""kafkajs in one Node process, told by `tests.clients.remote` what to do."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients.remote import Remote, running

VERSION = "2.2.4"
HERE = Path(__file__).parent
BUILD = HERE.parents[2] / "build"
FETCH_SECONDS_MAX = 600


@contextmanager
def driver() -> Iterator[Remote]:
    environment = {**os.environ, "NODE_PATH": str(_fetched() / "node_modules")}
    with running(["node", str(HERE / "driver.js")], environment) as remote:
        yield remote


def _fetched() -> Path:
    """kafkajs from npm, once per checkout and version; other processes wait for the first."""
    target = BUILD / f"kafkajs-{VERSION}"
    target.mkdir(parents=True, exist_ok=True)
    done = target / "done"
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            (target / "package.json").write_text('{"private": true}\n')
            command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
            subprocess.run(
                [*command, f"kafkajs@{VERSION}"],
                check=True,
                cwd=target,
                timeout=FETCH_SECONDS_MAX,
            )
            done.touch()
    return target
