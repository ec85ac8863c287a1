"""A stream whose options are wrong.

Spark 4.3 loses what is raised before it has a reader, and tells of a variable of its own instead.
So there is a reader, which raises whatever is asked of it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from stratamq.model.errors import StrataError
from stratamq.spark.failing import plainly


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, why: StrataError) -> None:
        self._why = why

    @plainly
    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise self._why

    getDefaultReadLimit = initialOffset = latestOffset = partitions = _refuse
    prepareForTriggerAvailableNow = read = reportLatestOffset = _refuse
