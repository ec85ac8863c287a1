"""One clear sentence instead of a traceback.

All of a data source runs in Python workers that Spark starts; what they raise reaches the user as
text, with the traceback unless the worker says otherwise. Spark ends a worker that raised, so what
is set for it here is set for nobody else.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from stratamq.model.errors import StrataError

P = ParamSpec("P")
T = TypeVar("T")

HIDE = "SPARK_HIDE_TRACEBACK"
"""What Spark's workers look at before they tell of an exception."""


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
