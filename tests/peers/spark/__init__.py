"""Spark's connector for Kafka from Maven Central, fetched once per checkout."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
JARS = HERE.parents[2] / "build" / f"spark-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
FETCH_SECONDS_MAX = 600


def jars() -> list[str]:
    """The first caller fetches them; others, in other processes too, wait for it."""
    JARS.mkdir(parents=True, exist_ok=True)
    done = JARS / "done"
    with (JARS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            _fetch()
            done.touch()
    return sorted(str(jar) for jar in JARS.glob("*.jar"))


def _fetch() -> None:
    subprocess.run(
        [
            "mvn",
            "--batch-mode",
            "--quiet",
            f"--file={POM}",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={JARS}",
        ],
        check=True,
        timeout=FETCH_SECONDS_MAX,
    )
