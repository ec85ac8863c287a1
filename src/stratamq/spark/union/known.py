"""Making the format known to a session, once.

Not at every read: within a step of a pipeline, Spark lets nothing be registered.
"""

from __future__ import annotations

from weakref import WeakSet

from pyspark.sql import SparkSession

from stratamq.spark.session import register

_known: WeakSet[SparkSession] = WeakSet()


def make_known(spark: SparkSession) -> None:
    if spark not in _known:
        register(spark)
        _known.add(spark)
