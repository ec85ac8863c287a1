"""The session, node and topics that all Spark tests share."""

from __future__ import annotations

from tests.spark.conftest import load, new_topic, node, spark, talk

__all__ = ["load", "new_topic", "node", "spark", "talk"]
