"""Jars that Spark does not bring, by their names at Maven Central, in versions that fit it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyspark

from stratamq.model.errors import InvalidConfig
from stratamq.spark.union.places import S3_PACKAGE

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
        """As settings of Spark, together with those that somebody gave."""
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
    found = [*([_s3(HOME / "jars")] if s3 else []), *([_kafka()] if kafka else [])]
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


def _kafka() -> Packages:
    """Spark's own `format("kafka")`."""
    return Packages((f"{CONNECTOR}:{CONNECTOR_VERSION}",))


def hadoop_version(jars: Path) -> str:
    """Of the Hadoop that Spark brings: another hadoop-aws would not fit it."""
    for jar in jars.glob("hadoop-client-api-*.jar"):
        if found := re.fullmatch(r"hadoop-client-api-(.+)\.jar", jar.name):
            return found[1]
    raise InvalidConfig(f"{jars} has no Hadoop: --s3 does not know which version would fit")
