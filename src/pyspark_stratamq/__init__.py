"""Spark finds this package by its name: `format("stratamq")` works without a call of `register`.

What is found like this leaves filters to Spark, which refuses sources that take them unless it is
told to push them down. `stratamq.spark.register` tells it, and takes them.
"""

from __future__ import annotations

from stratamq.spark.source import UnfilteredSource as DefaultSource

__all__ = ["DefaultSource"]
