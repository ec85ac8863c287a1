"""A sink that stops once, at a point that is named, until it is told to go on.

So a driver can be killed between two steps of an epoch, or left there as a zombie that comes back
when another one has taken over. Points, in their order:

    written   a task has written its rows, and has told nobody
    before    the tasks are done, and nothing is decided
    decided   the epoch counts, and its transactions are open
    ended     all of it is done, and Spark does not know
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from stratamq.spark.sink import epochs, writers
from stratamq.spark.sink.writers import StreamWriter, TaskWritten
from stratamq.spark.source import StrataMQSource
from tests.waiting import wait_until

if TYPE_CHECKING:
    import pyarrow as pa

POINTS = ("written", "before", "decided", "ended")
EPOCH = 1
"""Where it stops: there is one before it, and there are some behind."""

WAIT_S_MAX = 240


class PausingSource(StrataMQSource):
    @classmethod
    def name(cls) -> str:
        return "pausing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = dict(self.options)
        stop = Stop(options.pop("point"), Path(options.pop("folder")))
        return PausingWriter(options, schema, stop)


class Stop:
    """`paused` in the folder says that somebody stands here; `go` lets them pass."""

    def __init__(self, point: str, folder: Path) -> None:
        self._point, self._folder = point, folder

    def at(self, point: str) -> None:
        if point != self._point:
            return
        try:
            (self._folder / "paused").touch(exist_ok=False)
        except FileExistsError:
            return  # once
        wait_until((self._folder / "go").exists, "it may go on", WAIT_S_MAX)


class PausingWriter(StreamWriter):
    def __init__(self, options: dict[str, str], schema: StructType, stop: Stop) -> None:
        super().__init__(options, schema)
        self._stop = stop

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        done = super().write(iterator)
        context = TaskContext.get()
        assert context is not None, "Spark calls this in a task"
        if context.getLocalProperty(writers.EPOCH) == str(EPOCH):
            self._stop.at("written")
        return done

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if batchId != EPOCH:
            super().commit(messages, batchId)
            return
        self._stop.at("before")
        end = epochs._end

        async def end_later(*given: Any) -> None:
            self._stop.at("decided")
            await end(*given)

        epochs._end = end_later
        try:
            super().commit(messages, batchId)
        finally:
            epochs._end = end
        self._stop.at("ended")
