"""`spark-submit` with all settings that a job over topics needs, and the jars Spark does not bring.

Jars are named as at Maven Central, in versions that fit Spark. This decides; others run it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from stratamq.model.errors import InvalidConfig
from stratamq.spark.session import LOOPBACK, PATIENT, is_local
from stratamq.spark.union.reading import SERVERS_CONF
from stratamq.spark.union.snapshot import S3_PACKAGE

HOME = Path(pyspark.__file__).parent
SCALA = "2.13"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}"
CONNECTOR_VERSION = "4.2.0"
"""Newer ones are not published; Spark 4.3 runs it."""

WHERE = "spark.jars.ivySettings"
PLACES = Path(__file__).with_name("ivysettings.xml")

AWS = "software.amazon.awssdk"
AWS_VERSIONS = {"3.5.0": "2.35.4"}
"""By Hadoop's version, that of AWS's SDK it was built with."""


@dataclass(frozen=True, slots=True)
class Packages:
    """What Spark fetches when it starts, and what it must not fetch with it."""

    wanted: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the settings for Spark, together with those the user gave."""
        if not self.wanted:
            return {}
        lists = {"spark.jars.packages": self.wanted, "spark.jars.excludes": self.left_out}
        found = {
            name: ",".join([*names, *filter(None, [given.get(name)])])
            for name, names in lists.items()
            if names
        }
        return {WHERE: given.get(WHERE, str(PLACES)), **found}


def packages(*, s3: bool, kafka: bool) -> Packages:
    found = [
        *([_s3(HOME / "jars")] if s3 else []),
        *([Packages((f"{CONNECTOR}:{CONNECTOR_VERSION}",))] if kafka else []),
    ]
    return Packages(
        tuple(name for one in found for name in one.wanted),
        tuple(name for one in found for name in one.left_out),
    )


def _s3(jars: Path) -> Packages:
    """Hadoop's file system for S3. Of AWS's SDK only the parts that it uses, where those are known:
    all of it are 690 MB."""
    hadoop = hadoop_version(jars)
    package = f"{S3_PACKAGE}:{hadoop}"
    sdk = AWS_VERSIONS.get(hadoop)
    if sdk is None:
        return Packages((package,))
    parts = tuple(f"{AWS}:{part}:{sdk}" for part in ("s3-transfer-manager", "sts"))
    return Packages((package, *parts), (f"{AWS}:bundle",))


def hadoop_version(jars: Path) -> str:
    """Return the version of the Hadoop that Spark brings: another hadoop-aws would not fit it."""
    for jar in jars.glob("hadoop-client-api-*.jar"):
        if found := re.fullmatch(r"hadoop-client-api-(.+)\.jar", jar.name):
            return found[1]
    raise InvalidConfig(f"{jars} has no Hadoop: --s3 does not know which version would fit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job, where it runs, and what it needs in addition to Spark."""

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
    settings = {**PATIENT, **({SERVERS_CONF: asked.servers} if asked.servers else {})}
    if is_local(asked.master):
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    for name, value in {**settings, **asked.settings, **jars}.items():
        words += ["--conf", f"{name}={value}"]
    return [*words, str(asked.job), *asked.arguments]


def environment(before: Mapping[str, str]) -> dict[str, str]:
    """Set the Python that has this package, unless the user chose another."""
    return {"PYSPARK_PYTHON": sys.executable, **before, "SPARK_HOME": str(HOME)}
