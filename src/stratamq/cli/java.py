"""Which Java there is. Spark needs one; nothing else here does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

JAVA_MAJOR_MIN = 17
JAVA_SECONDS_MAX = 10


def java_major() -> int | None:
    """The major version of JAVA_HOME's Java or of the one on the PATH; None when there is none."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    program = program or shutil.which("java")
    if program is None:
        return None
    try:
        answer = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS_MAX
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(answer.stderr + answer.stdout)


def parse_java_version(text: str) -> int | None:
    """17 for `openjdk version "17.0.15"`, 8 for `java version "1.8.0_392"`."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None
