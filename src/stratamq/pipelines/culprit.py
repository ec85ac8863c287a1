"""Which record a step failed at.

Spark says where a stream stood when it failed, and not which row it was. The step's own function is
asked again, with its topics read as tables between two offsets, and the range is halved until one
record is left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from stratamq.client import TopicPartition
from stratamq.pipelines.steps import offsets_in
from stratamq.spark.options import FORMAT, STREAMING
from stratamq.spark.positions import StreamOffsets

TRIES_MAX = 80
_OFFSETS = re.compile(r"\{\"(?:[^{}]|\{[^{}]*\})*\}")

Query = Callable[[], DataFrame]
Ranges = Mapping[TopicPartition, tuple[int, int]]


class Culprit(NamedTuple):
    place: TopicPartition
    offset: int

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.place}"


def find(spark: SparkSession, query: Query, message: str) -> Culprit | None:
    """Find the record that a query fails of. None when it reads no topic, or does not fail
    again."""
    ranges = ranges_in(message)
    for place, (start, stop) in ranges.items():
        tries = iter(range(TRIES_MAX))

        def fails(start: int, stop: int, place: TopicPartition = place) -> bool:
            next(tries)  # noqa: B023
            empty = {one: (end, end) for one, (_, end) in ranges.items()}
            try:
                with _bounded(spark, query, {**empty, place: (start, stop)}) as asked:
                    asked().write.format("noop").mode("overwrite").save()
            except PySparkException:
                return True
            return False

        try:
            if fails(start, stop):
                return Culprit(place, halved(start, stop, fails))
        except StopIteration:
            return None
    return None


def halved(start: int, stop: int, fails: Callable[[int, int], bool]) -> int:
    """The first offset at which it fails; that it does, in start..stop - 1, is known."""
    while stop - start > 1:
        middle = (start + stop) // 2
        if fails(start, middle):
            stop = middle
        else:
            start = middle
    return start


def ranges_in(message: str) -> dict[TopicPartition, tuple[int, int]]:
    """What a stream was about to read when it failed."""
    said = offsets_in(message)
    before, after = _offsets(said.get("committed", "")), _offsets(said.get("available", ""))
    found = {place: (before.get(place, 0), stop) for place, stop in after.items()}
    return {place: (start, stop) for place, (start, stop) in found.items() if start < stop}


def _offsets(text: str) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for part in _OFFSETS.findall(text):
        try:
            found |= StreamOffsets.parse(json.loads(part)).offsets
        except (ValueError, TypeError, AttributeError):
            continue  # another kind of source
    return found


@contextmanager
def _bounded(spark: SparkSession, query: Query, ranges: Ranges) -> Iterator[Query]:
    """The function, with the session that it sees exchanged for one that reads tables."""
    names = getattr(query, "__globals__", {})
    kept = names.get("spark")
    names["spark"] = _Session(spark, ranges)
    try:
        yield query
    finally:
        names["spark"] = kept


class _Session:
    def __init__(self, spark: SparkSession, ranges: Ranges) -> None:
        self._spark, self._ranges = spark, ranges

    @property
    def readStream(self) -> _StreamReader:
        return _StreamReader(self._spark, self._ranges)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)


class _StreamReader:
    """A reader of streams, as far as a step uses it before `load`."""

    def __init__(self, spark: SparkSession, ranges: Ranges) -> None:
        self._spark, self._ranges = spark, ranges
        self._reader = spark.read
        self._is_topic = False

    def format(self, name: str) -> _StreamReader:
        self._is_topic = name == FORMAT
        self._reader = self._reader.format(name)
        return self

    def schema(self, schema: Any) -> _StreamReader:
        self._reader = self._reader.schema(schema)
        return self

    def option(self, name: str, value: Any) -> _StreamReader:
        if name.lower() not in {one.lower() for one in STREAMING}:
            self._reader = self._reader.option(name, value)
        return self

    def options(self, **given: Any) -> _StreamReader:
        for name, value in given.items():
            self.option(name, value)
        return self

    def table(self, name: str) -> DataFrame:
        return self._spark.read.table(name)

    def load(self, path: str | None = None) -> DataFrame:
        if self._is_topic:
            for name, side in (("startingOffsets", 0), ("endingOffsets", 1)):
                offsets = {place: bounds[side] for place, bounds in self._ranges.items()}
                self.option(name, json.dumps(StreamOffsets(offsets).stored()))
        return self._reader.load(path)
