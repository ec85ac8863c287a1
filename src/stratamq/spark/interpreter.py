"""The Python that Spark's workers run on this machine.

Spark puts a zip of PySpark before the one that is installed. Nothing in it is compiled, so every
worker that starts, one for each stream too, would first compile all that it imports: 0.9 s instead
of 0.3 s. The installed one is the same PySpark, and compiled.
"""

from __future__ import annotations

import atexit
import functools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ANSWER_SECONDS_MAX = 60


@functools.cache
def interpreter() -> str:
    """This process's own, with this process's own path; as it is, where no such script can run."""
    folder = Path(tempfile.mkdtemp(prefix="stratamq-python-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    launcher = folder / "python"
    path, python = os.environ.get("PYTHONPATH", ""), sys.executable
    launcher.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {shlex.quote(python)} "$@"\n'
    )
    launcher.chmod(0o700)
    return str(launcher) if _runs(launcher) else python


def _runs(launcher: Path) -> bool:
    try:
        told = subprocess.run([launcher, "-c", ""], timeout=ANSWER_SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return told.returncode == 0
