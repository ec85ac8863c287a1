"""The Java that Spark would run: better than what Spark's own scripts say about it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from stratamq.model.errors import InvalidConfig

OLDEST = 17
ANSWER_SECONDS_MAX = 30


def check_java() -> None:
    """InvalidConfig in one sentence when there is none, or one that is too old for Spark."""
    java = _found()
    version = _noted(java) or _told(java)
    if version < OLDEST:
        raise _refusal(f"{java} is Java {version}")


def _found() -> Path:
    """As Spark looks for it: in JAVA_HOME, where that is set, else on the PATH."""
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


def _noted(java: Path) -> int | None:
    """From the note that lies in its folder: quicker than to start it."""
    try:
        note = (java.resolve().parent.parent / "release").read_text()
    except OSError:
        return None
    return major_version(note)


def _told(java: Path) -> int:
    try:
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=ANSWER_SECONDS_MAX
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        told = ""
    version = major_version(told)
    if version is None:
        raise _refusal(f"{java} does not say which version it is")
    return version


def major_version(text: str) -> int | None:
    """17 of `version "17.0.15"` or `JAVA_VERSION="17.0.15"`; 8 of "1.8.0_392"."""
    found = re.search(r'version(?: |=)"(?:1\.)?(\d+)', text, re.IGNORECASE)
    return int(found[1]) if found else None


def _refusal(why: str) -> InvalidConfig:
    return InvalidConfig(f"Spark needs Java {OLDEST} or newer, and {why}")
