"""Spark finds this package by its name: `format("stratamq")` works without a call of `register`."""

from __future__ import annotations

from stratamq.spark.source import StrataMQSource as DefaultSource

__all__ = ["DefaultSource"]
