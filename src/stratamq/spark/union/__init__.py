"""A topic as one DataFrame: history by Spark's own Parquet reader, the rest from the nodes.

snapshot   what is read from where: one cut, decided by a pure function
columns    the columns, with types that are the same on both sides
places     where files are, for Spark
cold, hot  the two sides
chunks     what comes from the nodes, numbered; pieces makes their columns, in tasks
reading    the two put together
"""

from __future__ import annotations

from stratamq.spark.union.reading import register, topic

__all__ = ["register", "topic"]
