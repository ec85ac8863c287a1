"""A topic as a table of its own, in folders by columns that queries ask for.

A copy is written next to its target and moved there when it is whole. So one that is cut off
changes nothing, two at once are both whole and the later one stays, and readers see the one before
or the one after; only between two renames, for a moment, there is none. What a run that was killed
had written is in a folder next to the target, `_{name}.copy-...`, and may be deleted.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from stratamq.model.errors import StorageError
from stratamq.spark.union.reading import topic

TRIES_MAX = 20
"""Times that others may put their copy there at the same moment."""


def partitioned_copy(
    spark: SparkSession, name: str, target: str, by: Sequence[str], **given: Any
) -> None:
    """The topic at this moment as a table at `target`, in folders by the columns `by`.

    A topic's own files lie in the order of its log, which readers of messages need; who queries by
    something else gets a copy. What was at `target` before is replaced.
    """
    place = _Place(spark, target)
    try:
        topic(spark, name, **given).write.partitionBy(*by).parquet(place.made.toString())
        place.take()
    finally:
        place.tidy()


class _Place:
    """A folder, one next to it for the copy that is being made, and one for the copy it
    replaces."""

    def __init__(self, spark: SparkSession, target: str) -> None:
        hadoop = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
        configured = spark._jsparkSession.sessionState().newHadoopConf()
        plain = hadoop.Path(target)
        self.target = plain.getFileSystem(configured).makeQualified(plain)
        name = f"_{self.target.getName()}.copy-{uuid.uuid4().hex}"
        self.made = hadoop.Path(self.target.getParent(), name)
        self._before = hadoop.Path(self.target.getParent(), f"{name}.before")
        self._files = hadoop.FileContext.getFileContext(self.target.toUri(), configured)
        gateway = spark.sparkContext._gateway
        self._as_is = gateway.new_array(hadoop.Options.Rename, 0)  # type: ignore[union-attr]

    def take(self) -> None:
        """Put what was made in the place of what is there."""
        for _ in range(TRIES_MAX):
            self._rename(self.target, self._before)
            if self._rename(self.made, self.target):
                return
            self._files.delete(self._before, True)
        raise StorageError(f"{self.target}: others put theirs there {TRIES_MAX} times")

    def _rename(self, source: Any, goal: Any) -> bool:
        """Rename a folder. False where there is none, or another is in the way."""
        try:
            self._files.rename(source, goal, self._as_is)
        except Py4JJavaError as error:
            kind = error.java_exception.getClass().getSimpleName()
            if kind not in ("FileNotFoundException", "FileAlreadyExistsException"):
                raise
            return False
        return True

    def tidy(self) -> None:
        for left in (self.made, self._before):
            self._files.delete(left, True)
