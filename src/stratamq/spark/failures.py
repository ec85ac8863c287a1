"""What a query loses or fails of, said in one clear sentence instead of a traceback.

All of a data source runs in Python workers that Spark starts; what they raise reaches the user as
text, with the traceback unless the worker says otherwise. Spark ends a worker that raised, so what
is set for it here affects no other query.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from stratamq.client import TopicPartition
from stratamq.model.errors import OffsetOutOfRange, StrataError, TopicRecreated

logger = logging.getLogger(__name__)
WARNINGS_MAX = 256


class DataLoss(OffsetOutOfRange):
    """Records that should have been read are gone."""

    def __init__(self, place: TopicPartition, offset: int, start: int, end: int) -> None:
        super().__init__(str(place), offset, start, end)
        self.args = (
            f"{place}: offset {offset} was to be read, but the log has {start} to {end}: retention "
            "or a new topic of the same name took it (failOnDataLoss=false goes on without)",
        )


def recreated(before: Mapping[str, bytes], now: Mapping[str, bytes]) -> list[TopicRecreated]:
    """One for each topic that has another id now. What has no id is not compared."""
    return [
        TopicRecreated(name, topic_id, now[name])
        for name, topic_id in sorted(before.items())
        if name in now and now[name] != topic_id
    ]


@dataclass(frozen=True, slots=True)
class Losses:
    """What a query does about them."""

    fatal: bool = True

    def accept(self, error: StrataError, instead: str) -> None:
        """`instead` says what a query does that goes on."""
        if self.fatal:
            error.args = (f"{error} (failOnDataLoss=false {instead})",)
            raise error
        warn_once(f"{error}: the query {instead}")


@functools.lru_cache(WARNINGS_MAX)
def warn_once(text: str) -> None:
    """Spark asks a hundred times a second where a stream stands: a line for each is no help."""
    logger.warning(text)


P = ParamSpec("P")
T = TypeVar("T")

HIDE = "SPARK_HIDE_TRACEBACK"
"""The variable that Spark's workers read before they report an exception."""


class StrataMQError(Exception):
    """What a query that fails because of us shows."""


def plainly(work: Callable[P, T]) -> Callable[P, T]:
    """Expected failures of `work` as a StrataMQError that says no more than what is wrong."""

    @functools.wraps(work)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(*args, **kwargs)
        except StrataError as error:
            raise plain(error) from None

    return wrapped


def plain(error: StrataError) -> StrataMQError:
    os.environ[HIDE] = "1"
    return StrataMQError(str(error))
