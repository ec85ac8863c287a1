"""Spark with Iceberg's own runtime from Maven Central: a process that answers queries in SQL."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.peers.spark import LOOPBACK, QUICK_JAVA, environment, fetched

HERE = Path(__file__).parent
ANSWER_SECONDS_MAX = 500
OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic"),
    *("sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)
"""Packages of Java that Spark looks into; its own scripts open them."""


def ask(catalog: Path, store: Path, *queries: str) -> list[dict[str, Any]]:
    """The rows of all answers. Tables are `stratamq.{namespace}.{table}`."""
    opens = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED]
    jars = fetched(HERE / "pom.xml", "spark-iceberg", "-DincludeScope=runtime")
    words = ["java", "-Xmx700m", *QUICK_JAVA.split(), *opens, "-cp", f"{jars}/*"]
    words += [str(HERE / "Query.java"), str(catalog), store.as_uri(), *queries]
    told = subprocess.run(
        words,
        env={**environment(), "SPARK_LOCAL_IP": LOOPBACK},
        capture_output=True,
        text=True,
        timeout=ANSWER_SECONDS_MAX,
    )
    assert told.returncode == 0, told.stderr[-5000:]
    return [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]
