"""Spark over a topic: our source beside Spark's own `format("kafka")`, on the same node."""
