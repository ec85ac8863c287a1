"""Sessions: starting a local one, and registering the format with any."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import WeakSet

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from stratamq.spark.machine import check_java, check_master, interpreter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""What the option `pushFilters` needs; see `source.FilteringReader`."""

LOOPBACK = "127.0.0.1"
PATIENT = {"spark.python.authenticate.socketTimeout": "60s"}
"""Python workers start slowly on a busy machine."""

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    **PATIENT,
    "spark.sql.session.timeZone": "UTC",
}


def session(master: str = "local[*]", **settings: str) -> SparkSession:
    """A session that knows `format("stratamq")`, on this machine unless `master` says otherwise.

    Settings are Spark's, with `_` for `.`: `session(spark_driver_memory="2g")`.
    """
    check_java()
    check_master(master)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("stratamq")
    given = {name.replace("_", "."): value for name, value in settings.items()}
    for name, value in {**(_LOCAL if is_local(master) else {}), **given}.items():
        builder = builder.config(name, value)
    return register(builder.getOrCreate())


def register(spark: SparkSession) -> SparkSession:
    """`format("stratamq")` from now on."""
    from stratamq.spark.source import StrataMQSource

    if not is_remote() and "PYSPARK_PYTHON" not in os.environ:
        context = spark.sparkContext
        if is_local(context.master or ""):
            context.pythonExec = interpreter()  # the one that has this package
    spark.dataSource.register(StrataMQSource)
    return spark


def is_local(master: str) -> bool:
    return master.split("[")[0] == "local"


_known: WeakSet[SparkSession] = WeakSet()


def make_known(spark: SparkSession) -> None:
    if spark not in _known:
        register(spark)
        _known.add(spark)
