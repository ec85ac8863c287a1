"""`spark-submit` with everything set that a job over topics needs. Decides; others run it."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from stratamq.model.errors import InvalidConfig
from stratamq.spark.session import LOOPBACK, is_local
from stratamq.spark.union.places import S3_PACKAGE
from stratamq.spark.union.reading import SERVERS_CONF

HOME = Path(pyspark.__file__).parent
SCALA = "2.13"


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
    packages = _packages(asked)
    if packages:
        words += ["--packages", ",".join(packages)]
    for name, value in {**_settings(asked), **asked.settings}.items():
        words += ["--conf", f"{name}={value}"]
    return [*words, str(asked.job), *asked.arguments]


def environment(before: Mapping[str, str]) -> dict[str, str]:
    """With the Python that has this package, unless somebody chose another."""
    return {"PYSPARK_PYTHON": sys.executable, **before, "SPARK_HOME": str(HOME)}


def _settings(asked: Submission) -> dict[str, str]:
    found = {SERVERS_CONF: asked.servers} if asked.servers else {}
    if is_local(asked.master):
        found |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return found


def _packages(asked: Submission) -> list[str]:
    """From Maven Central, in the versions that go with this Spark."""
    spark = pyspark.__version__
    wanted = {
        f"{S3_PACKAGE}:{hadoop_version(HOME / 'jars')}": asked.s3,
        f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{spark}": asked.kafka,
    }
    return [name for name, is_wanted in wanted.items() if is_wanted]


def hadoop_version(jars: Path) -> str:
    """Of the Hadoop that Spark brings: another hadoop-aws would not fit it."""
    for jar in jars.glob("hadoop-client-api-*.jar"):
        if found := re.fullmatch(r"hadoop-client-api-(.+)\.jar", jar.name):
            return found[1]
    raise InvalidConfig(f"{jars} has no Hadoop: --s3 does not know which version would fit")
