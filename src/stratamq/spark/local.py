"""`path`: a data folder instead of servers. A node is started on it, and ends when Spark does.

The workers in which a data source runs come and go, so the node is a process apart, watched by a
guardian (this module as a program) that ends it together with the JVM. A query that asks for the
same folder again finds its address in a file.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from stratamq.model.errors import InvalidConfig

READY = re.compile(r"ready kafka=(\S+)")
LOOK_EVERY_S = 1.0
ANCESTORS_MAX = 20

_guardians: list[subprocess.Popen[str]] = []
"""Those this process has started: they go on when it ends."""


def servers_for(folder: Path) -> str:
    """`host:port` of a node on the folder. InvalidConfig when another process has it open."""
    if not folder.is_dir():
        raise InvalidConfig(f"path: there is no folder {folder}")
    note = _note(folder)
    with _locked(note):
        return _running(note) or _start(folder, note)


def _note(folder: Path) -> Path:
    """Return where the address of the folder's node is; not in the folder, which is the node's."""
    place = Path(tempfile.gettempdir()) / f"stratamq-spark-{os.getuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    return place / hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


@contextlib.contextmanager
def _locked(note: Path) -> Iterator[None]:
    """Hold the folder's lock: two queries that begin at once start one node."""
    with note.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _running(note: Path) -> str | None:
    if not note.exists():
        return None
    pid, _, address = note.read_text().partition(" ")
    return address if _is_alive(int(pid)) else None


def _start(folder: Path, note: Path) -> str:
    guardian = subprocess.Popen(
        [sys.executable, "-m", __name__, str(folder), str(_whom_to_follow())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # it must outlive the worker that starts it
    )
    _guardians.append(guardian)
    assert guardian.stdout is not None
    with guardian.stdout as output:
        line = output.readline().strip()
    found = READY.match(line)
    if found is None:
        guardian.wait()
        why = line.removeprefix("stratamq: ") or "the node did not start"
        raise InvalidConfig(f"path: {why} (of a node that runs, give the address as 'servers')")
    note.write_text(f"{guardian.pid} {found[1]}")
    return found[1]


def _whom_to_follow() -> int:
    """Find the JVM that our worker belongs to, or else the process that started this one."""
    pid = os.getppid()
    for _ in range(ANCESTORS_MAX):
        found = subprocess.run(
            ["ps", "-o", "ppid=,comm=", "-p", str(pid)], capture_output=True, text=True, check=False
        ).stdout.split(None, 1)
        name, parent = (Path(found[1].strip()).name, int(found[0])) if len(found) == 2 else ("", 0)
        if name == "java":
            return pid
        if parent <= 1:
            break
        pid = parent
    return os.getppid()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


# -- the guardian ----------------------------------------------------------------------------------


def guard(folder: str, followed: int) -> int:
    """Run a node until the process that is followed has ended."""
    with tempfile.TemporaryFile("w+") as log:
        node = subprocess.Popen(
            [
                *(sys.executable, "-m", "stratamq.cli", "server", "--data-dir", folder),
                *("--host", "127.0.0.1", "--kafka-port", "0", "--console-port", "-1"),
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert node.stdout is not None
        line = node.stdout.readline()
        if READY.match(line) is None:
            node.wait()
            log.seek(0)
            errors = log.read()
            lines = [line.strip() for line in errors.splitlines() if line.strip()]
            line = lines[-1] if lines else ""
        print(line.strip(), flush=True)
        while node.poll() is None and _is_alive(followed):
            time.sleep(LOOK_EVERY_S)
        node.send_signal(signal.SIGTERM)
        return node.wait()


if __name__ == "__main__":
    sys.exit(guard(sys.argv[1], int(sys.argv[2])))
