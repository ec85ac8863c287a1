"""Spark over a topic that is half history: `make bench-spark`."""
