"""Topics as tables and streams of Spark, and back.

    from stratamq.spark import session, topic

    spark = session()  # or register(spark), for a session there is
    orders = spark.read.format("stratamq").options(servers="localhost:9092", topic="orders").load()
    orders = topic(spark, "orders", servers="localhost:9092")  # history by Spark's Parquet reader

An application over `client` and `lake`, never imported by a node. docs/spark.md has all options.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from stratamq.model.errors import InvalidConfig

try:
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401
except ImportError as error:
    raise InvalidConfig(
        f"{error.name} is missing: pip install 'stratamq[spark,lake]' brings what Spark needs"
    ) from None

from stratamq.spark.session import session

if TYPE_CHECKING:
    from stratamq.spark.failures import StrataMQError
    from stratamq.spark.positions import lag
    from stratamq.spark.source import StrataMQSource
    from stratamq.spark.union import register, topic

__all__ = ["StrataMQError", "StrataMQSource", "lag", "register", "session", "topic"]

_HOMES = {
    "StrataMQError": "failures",
    "StrataMQSource": "source",
    "lag": "positions",
    "register": "union",
    "topic": "union",
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used: Spark's workers need few of them, and start often."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
