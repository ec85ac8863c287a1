"""The demo's pipeline: from the topic of orders to tables, and back to a topic."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).resolve().parent / "pipeline"
RUN_S_MAX = 600
STEP = re.compile(r"^ *(\w+) +completed(?: +([\d,]+))?", re.MULTILINE)
"""A line of the table that `stratamq pipeline run` ends with."""


def run_pipeline(servers: str, folder: Path) -> dict[str, int]:
    """Copy the project into `folder` and run it; the rows of each step. In a process of its own, as
    users run it: it needs a Spark of another kind than the demo's."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SOURCE, folder)
    spec = folder / "spark-pipeline.yml"
    storage = (folder / "storage").resolve().as_uri()
    spec.write_text(spec.read_text().replace("storage: storage", f"storage: {storage}"))
    words = ("pipeline", "run", str(folder), "--servers", servers, "--master", "local[2]")
    memory = ("--conf", "spark.sql.catalogImplementation=in-memory")
    done = subprocess.run(
        [sys.executable, "-m", "stratamq.cli", *words, *memory],
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
    )
    if done.returncode:
        raise SystemExit(f"the pipeline failed: {done.stderr.strip()}")
    return {name: int((rows or "0").replace(",", "")) for name, rows in STEP.findall(done.stdout)}


def sources() -> Mapping[str, str]:
    """The files of the project, by their paths in it."""
    files = sorted(path for path in SOURCE.rglob("*") if path.suffix in (".py", ".sql", ".yml"))
    return {str(path.relative_to(SOURCE)): path.read_text() for path in files}
