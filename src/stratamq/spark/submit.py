"""`spark-submit` with everything set that a job over topics needs. Decides; others run it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stratamq.model.errors import InvalidConfig
from stratamq.spark.packages import HOME, packages
from stratamq.spark.session import LOOPBACK, PATIENT, is_local
from stratamq.spark.union.reading import SERVERS_CONF


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job, where it runs, and what it needs beside Spark itself."""

    job: Path
    arguments: Sequence[str] = ()
    master: str = "local[*]"
    servers: str | None = None
    s3: bool = False
    kafka: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


def command(asked: Submission) -> list[str]:
    """The words of the command."""
    if not asked.job.is_file():
        raise InvalidConfig(f"there is no job {asked.job}")
    words = [str(HOME / "bin" / "spark-submit"), "--master", asked.master]
    jars = packages(s3=asked.s3, kafka=asked.kafka).settings(asked.settings)
    for name, value in {**_settings(asked), **asked.settings, **jars}.items():
        words += ["--conf", f"{name}={value}"]
    return [*words, str(asked.job), *asked.arguments]


def environment(before: Mapping[str, str]) -> dict[str, str]:
    """With the Python that has this package, unless somebody chose another."""
    return {"PYSPARK_PYTHON": sys.executable, **before, "SPARK_HOME": str(HOME)}


def _settings(asked: Submission) -> dict[str, str]:
    found = {**PATIENT, **({SERVERS_CONF: asked.servers} if asked.servers else {})}
    if is_local(asked.master):
        found |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return found
