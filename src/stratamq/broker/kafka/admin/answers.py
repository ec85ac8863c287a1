"""How a failure is told in a field or two of an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import NamedTuple, TypeVar

from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.topics import Refused
from stratamq.model.errors import CapacityExceeded, StrataError
from stratamq.wire.kafka.protocol import ErrorCode

T = TypeVar("T", bound=Hashable)


class Failure(NamedTuple):
    code: ErrorCode
    message: str


def failure(error: StrataError) -> Failure:
    """A limit of ours is a policy to those who ask: trying again will not help them."""
    if isinstance(error, Refused):
        return Failure(error.code, str(error))
    if isinstance(error, CapacityExceeded):
        return Failure(ErrorCode.POLICY_VIOLATION, str(error))
    return Failure(code_of(error), str(error))


LATE = Failure(ErrorCode.REQUEST_TIMED_OUT, "it was not done in time; it may still be done")


def named_twice(names: Iterable[T]) -> set[T]:
    """What a request names more than once. Nobody knows which of the two was meant."""
    return {name for name, count in Counter(names).items() if count > 1}


def twice(what: object) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, f"{what!r} is named more than once in one request")
