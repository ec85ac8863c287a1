"""What Spark needs on this machine: a Java, a master that answers, and a Python for its workers.

The checks say in one sentence what Spark's own scripts say badly, or after minutes.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from stratamq.model.errors import InvalidConfig, StrataError

OLDEST = 17
JAVA_SECONDS_MAX = 30


def check_java() -> None:
    """Raise InvalidConfig when there is no Java, or one that is too old for Spark."""
    java = _found()
    version = None
    with contextlib.suppress(OSError):  # quicker than to start it: the note in its folder
        version = major_version((java.resolve().parent.parent / "release").read_text())
    version = version or _asked_version(java)
    if version < OLDEST:
        raise _refusal(f"{java} is Java {version}")


def _found() -> Path:
    """Find Java as Spark does: in JAVA_HOME, where that is set, else on the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.exists():
            raise _refusal(f"JAVA_HOME is {home}, which has no bin/java")
        return java
    on_path = shutil.which("java")
    if on_path is None:
        raise _refusal("no java is on the PATH")
    return Path(on_path)


def _asked_version(java: Path) -> int:
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS_MAX
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    version = major_version(said)
    if version is None:
        raise _refusal(f"{java} does not say which version it is")
    return version


def major_version(text: str) -> int | None:
    """17 of `version "17.0.15"` or `JAVA_VERSION="17.0.15"`; 8 of "1.8.0_392"."""
    found = re.search(r'version(?: |=)"(?:1\.)?(\d+)', text, re.IGNORECASE)
    return int(found[1]) if found else None


def _refusal(why: str) -> InvalidConfig:
    return InvalidConfig(f"Spark needs Java {OLDEST} or newer, and {why}")


MASTER_PORT = 7077
CONNECT_PORT = 15002
MASTER_SECONDS_MAX = 10
_KNOWN = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|spark://.+|yarn|k8s://.+")


def check_master(master: str) -> None:
    """InvalidConfig for what Spark does not know; StrataError when none of the masters of a
    standalone cluster answers. Others are left to Spark."""
    if not _KNOWN.fullmatch(master):
        raise InvalidConfig(
            f"a master is local[2], spark://host:port, yarn or k8s://host, not {master!r}"
        )
    if master.startswith("spark://"):
        places = master.removeprefix("spark://").split(",")
        if not any(_answers(place, MASTER_PORT) for place in places):
            raise StrataError(f"no Spark master answers at {master}")


def check_server(remote: str) -> None:
    """Check a Spark Connect server in the same way."""
    if not remote.startswith("sc://"):
        raise InvalidConfig(f"a Spark Connect server is sc://host:port, not {remote!r}")
    place = urlsplit(remote).netloc
    if not _answers(place, CONNECT_PORT):
        raise StrataError(f"no Spark Connect server answers at sc://{place}")


def _answers(place: str, usual_port: int) -> bool:
    try:
        found = urlsplit(f"//{place}")
        address = (found.hostname or "", found.port or usual_port)
        socket.create_connection(address, MASTER_SECONDS_MAX).close()
    except (OSError, ValueError):
        return False
    return True


PYTHON_SECONDS_MAX = 60


@functools.cache
def interpreter() -> str:
    """Return a launcher of this process's Python with its own path, or that Python itself where no
    such script can run.

    Spark puts a zip of PySpark before the one that is installed. Nothing in it is compiled, so
    every worker that starts, one for each stream too, would first compile all that it imports:
    0.9 s instead of 0.3 s. The installed one is the same PySpark, and compiled.
    """
    folder = Path(tempfile.mkdtemp(prefix="stratamq-python-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    launcher = folder / "python"
    path, python = os.environ.get("PYTHONPATH", ""), sys.executable
    launcher.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {shlex.quote(python)} "$@"\n'
    )
    launcher.chmod(0o700)
    try:
        answer = subprocess.run([launcher, "-c", ""], timeout=PYTHON_SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return python
    return str(launcher) if answer.returncode == 0 else python
