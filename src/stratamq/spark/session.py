"""Sessions: starting a local one, and making the format known to any."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.utils import is_remote

from stratamq.model.errors import InvalidConfig
from stratamq.spark.source import StrataMQSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""What the option `pushFilters` needs; see `source.FilteringReader`."""

LOOPBACK = "127.0.0.1"
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.python.authenticate.socketTimeout": "60s",  # workers start slowly on a busy machine
    "spark.sql.session.timeZone": "UTC",
}


def session(master: str = "local[*]", **settings: str) -> SparkSession:
    """A session that knows `format("stratamq")`, on this machine unless `master` says otherwise.

    Settings are Spark's, with `_` for `.`: `session(spark_driver_memory="2g")`.
    """
    check_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("stratamq")
    given = {name.replace("_", "."): value for name, value in settings.items()}
    for name, value in {**(_LOCAL if is_local(master) else {}), **given}.items():
        builder = builder.config(name, value)
    return register(builder.getOrCreate())


def register(spark: SparkSession) -> SparkSession:
    """`format("stratamq")` from now on."""
    if not is_remote() and "PYSPARK_PYTHON" not in os.environ:
        context = spark.sparkContext
        if is_local(context.master or ""):
            context.pythonExec = sys.executable  # the one that has this package
    spark.dataSource.register(StrataMQSource)
    return spark


def is_local(master: str) -> bool:
    return master.split("[")[0] == "local"


def check_java() -> None:
    """Better than what Spark's own scripts say about it."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return
    if home or shutil.which("java") is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java is on the PATH"
        raise InvalidConfig(f"Spark needs Java 17 or newer, and {where}")
