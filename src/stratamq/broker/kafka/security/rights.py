"""What one caller may do, and what becomes of a request that asks for more.

A request may name a hundred thousand topics, and each takes some microseconds to judge. So a check
of a list is a generator that yields after each element: the guard does a few hundred of these steps
at once and the others in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.security.authorizer import Authorizer
from stratamq.meta.topics import BrokerCacheManager
from stratamq.model.access import CLUSTER_NAME, OPERATIONS, Operation, ResourceKind
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import TopicNotFound
from stratamq.model.types import TopicId
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode, Steps

T = TypeVar("T")

REFUSAL: dict[ResourceKind, ErrorCode] = {
    ResourceKind.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceKind.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceKind.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceKind.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
NOTHING = 0


@dataclass(frozen=True, slots=True)
class Rights:
    """A topic that is unknown by its id has no name, so no rule can refuse it: the handler answers
    that it does not exist."""

    authorizer: Authorizer
    caller: Caller
    known: BrokerCacheManager
    creates_topics: bool = False

    def may(self, operation: Operation, kind: ResourceKind, name: str) -> bool:
        caller = self.caller
        return self.authorizer.allows(caller.principal, caller.host, operation, kind, name)

    def on_topic(self, operation: Operation, name: str) -> bool:
        return self.may(operation, ResourceKind.TOPIC, name)

    def on_group(self, operation: Operation, name: str) -> bool:
        return self.may(operation, ResourceKind.GROUP, name)

    def on_cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceKind.CLUSTER, CLUSTER_NAME)

    def on_transaction(self, operation: Operation, name: str) -> bool:
        return self.may(operation, ResourceKind.TRANSACTIONAL_ID, name)

    def on_any_topic(self, operation: Operation) -> bool:
        caller = self.caller
        return self.authorizer.allows_any(
            caller.principal, caller.host, operation, ResourceKind.TOPIC
        )

    def on_named_topic(self, operation: Operation, name: str | None, topic_id: bytes) -> bool:
        """By id where there is one."""
        if topic_id != NO_UUID:
            name = self.name_of(topic_id)
            return name is None or self.on_topic(operation, name)
        return self.on_topic(operation, name or "")

    def name_of(self, topic_id: bytes) -> str | None:
        try:
            return self.known.topic_by_id(TopicId(topic_id.hex())).name
        except TopicNotFound:
            return None

    def exists(self, topic: str) -> bool:
        try:
            return bool(self.known.topic(topic))
        except TopicNotFound:
            return False

    def operations(self, kind: ResourceKind, name: str = CLUSTER_NAME) -> int:
        """A bit for each operation that is allowed on it."""
        return sum(1 << one for one in OPERATIONS[kind] if self.may(one, kind, name))


# -- what becomes of a request ---------------------------------------------------------------------


class Verdict(NamedTuple):
    """`left` is the part of the request that is allowed, None where nothing is; `finish` makes the
    answer from that of the handler, which is None where it was not called."""

    left: Any | None
    finish: Callable[[Any | None], Any]


Judge = Callable[[Any, Rights], Verdict | Steps[Verdict | None] | None]
"""None: all of it is allowed."""

ListJudge = Callable[[Any, Rights], Steps[Verdict | None]]

After = Callable[[Any, Any, Rights], Steps[None] | None]
"""Request and response: removes from the response what the caller may not see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRights:
    """A row of the table. `needs` says in words what `judge` and `after` check; `reports` fills in
    which operations the caller is authorized for, and runs without an authorizer too."""

    needs: str
    judge: Judge | None = None
    after: After | None = None
    reports: After | None = None


def refused(response: Any) -> Verdict:
    """Refuse the whole request."""
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


def error_in(response: type, **fields: object) -> Callable[[Any, ErrorCode], Any]:
    """A whole response with the code of the refusal, and its text where the API has a field for it.
    `fields` are those without a default."""
    texts = "error_message" in {field.name for field in dataclass_fields(response)}

    def refuse(request: object, code: ErrorCode) -> Any:
        text = {"error_message": code.text} if texts else {}
        return response(error_code=code, **text, **fields)

    return refuse


def each(
    items: str,
    allows: Callable[[Any, Rights], bool],
    refuse: Callable[[Any], Any],
    response: type,
    answers: str,
) -> ListJudge:
    """A right for each of the request's items; each that is refused is answered with its error."""

    def judge(request: Any, rights: Rights) -> Steps[Verdict | None]:
        asked: Sequence[Any] | None = getattr(request, items)
        if asked is None:
            return None
        allowed, denied = yield from split(asked, lambda one: allows(one, rights))
        if not denied:
            return None
        refusals = yield from listed(refuse(one) for one in denied)
        return parted(request, items, allowed, refusals, response, answers)

    return judge


def split(items: Iterable[T], allows: Callable[[T], bool]) -> Steps[tuple[list[T], list[T]]]:
    """The items that are allowed, and those that are denied."""
    allowed: list[T] = []
    denied: list[T] = []
    for one in items:
        (allowed if allows(one) else denied).append(one)
        yield
    return allowed, denied


def listed(items: Iterable[T]) -> Steps[list[T]]:
    """The items of a generator, each in a step of its own."""
    results: list[T] = []
    for one in items:
        results.append(one)
        yield
    return results


def parted(
    request: Any,
    items: str,
    allowed: Sequence[Any],
    refusals: Sequence[Any],
    response: type,
    answers: str,
) -> Verdict:
    """Call the handler with the allowed items, if any, and add the refusals to its answer."""

    def finish(answer: Any | None) -> Any:
        if answer is None:
            return response(**{answers: refusals})
        setattr(answer, answers, [*getattr(answer, answers), *refusals])
        return answer

    return Verdict(replace(request, **{items: allowed}) if allowed else None, finish)
