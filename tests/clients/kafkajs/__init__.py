"""kafkajs in one Node process, told by `tests.clients.remote` what to do."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients.remote import Remote, running

PACKAGES = ("kafkajs@2.2.4", "kafkajs-snappy@1.1.0", "lz4js@0.2.0", "@bokuweb/zstd-wasm@0.0.27")
HERE = Path(__file__).parent
BUILD = HERE.parents[2] / "build"
FETCH_SECONDS_MAX = 600


@contextmanager
def driver() -> Iterator[Remote]:
    environment = {**os.environ, "NODE_PATH": str(_fetched() / "node_modules")}
    with running(["node", str(HERE / "driver.js")], environment) as remote:
        yield remote


def _fetched() -> Path:
    """The packages from npm, once per checkout; other processes wait for the first."""
    target = BUILD / f"kafkajs-{hashlib.sha256(repr(PACKAGES).encode()).hexdigest()[:12]}"
    target.mkdir(parents=True, exist_ok=True)
    done = target / "done"
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            (target / "package.json").write_text('{"private": true}\n')
            command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
            subprocess.run([*command, *PACKAGES], check=True, cwd=target, timeout=FETCH_SECONDS_MAX)
            done.touch()
    return target
