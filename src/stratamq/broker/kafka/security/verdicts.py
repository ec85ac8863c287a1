"""What becomes of a request that asks for more than its caller may have.

A request may name a hundred thousand topics, and each takes some microseconds to judge. So what
looks at a list is a generator that yields after each element: the guard does a few hundred of these
steps at once and the others in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from stratamq.broker.kafka.security.rights import REFUSAL, Rights
from stratamq.model.access import CLUSTER_NAME, Operation, ResourceKind
from stratamq.model.dataclass import dataclass
from stratamq.wire.kafka.protocol import ErrorCode, Steps

T = TypeVar("T")


class Verdict(NamedTuple):
    """`left` is what may be asked for, None where that is nothing; `finish` makes the answer from
    that of the handler, which is None where it was not asked."""

    left: Any | None
    finish: Callable[[Any | None], Any]


Judge = Callable[[Any, Rights], Verdict | Steps[Verdict | None] | None]
"""None: all of it is allowed."""

ListJudge = Callable[[Any, Rights], Steps[Verdict | None]]

After = Callable[[Any, Any, Rights], Steps[None] | None]
"""Request and response: takes out of the response what the caller may not see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row of the table. `needs` says in words what `judge` and `after` look at; `tells` fills in
    what callers are told of their rights, and runs without an authorizer too."""

    needs: str
    judge: Judge | None = None
    after: After | None = None
    tells: After | None = None


def refused(response: Any) -> Verdict:
    """All of it."""
    return Verdict(None, lambda _: response)


def whole(
    operation: Operation,
    kind: ResourceKind,
    refuse: Callable[[Any, ErrorCode], Any],
    name: Callable[[Any], str] = lambda _: CLUSTER_NAME,
) -> Judge:
    """One right for the whole request; `refuse` makes the response to it."""

    def judge(request: Any, rights: Rights) -> Verdict | None:
        if rights.may(operation, kind, name(request)):
            return None
        return refused(refuse(request, REFUSAL[kind]))

    return judge


def each(
    items: str,
    allows: Callable[[Any, Rights], bool],
    refuse: Callable[[Any], Any],
    response: type,
    answers: str,
) -> ListJudge:
    """A right for each of the request's items; those refused have their place in the response."""

    def judge(request: Any, rights: Rights) -> Steps[Verdict | None]:
        asked: Sequence[Any] | None = getattr(request, items)
        if asked is None:
            return None
        kept, others = yield from split(asked, lambda one: allows(one, rights))
        if not others:
            return None
        refusals = yield from listed(refuse(one) for one in others)
        return parted(request, items, kept, refusals, response, answers)

    return judge


def split(items: Iterable[T], allows: Callable[[T], bool]) -> Steps[tuple[list[T], list[T]]]:
    """Those that are allowed, and the others."""
    kept: list[T] = []
    others: list[T] = []
    for one in items:
        (kept if allows(one) else others).append(one)
        yield
    return kept, others


def listed(items: Iterable[T]) -> Steps[list[T]]:
    """The items of a generator, each made in a step of its own."""
    made: list[T] = []
    for one in items:
        made.append(one)
        yield
    return made


def parted(
    request: Any,
    items: str,
    kept: Sequence[Any],
    refusals: Sequence[Any],
    response: type,
    answers: str,
) -> Verdict:
    """Ask for what is kept, if anything, and add the refusals to the answer."""

    def finish(answer: Any | None) -> Any:
        if answer is None:
            return response(**{answers: refusals})
        setattr(answer, answers, [*getattr(answer, answers), *refusals])
        return answer

    return Verdict(replace(request, **{items: kept}) if kept else None, finish)
