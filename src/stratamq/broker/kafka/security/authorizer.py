"""Rules in, yes or no out. Pure; a change of rules makes a new `AclAuthorizer`.

Laws, as in Kafka
-----------------
1.  Super users may do everything.
2.  A rule that denies wins over every rule that allows.
3.  To be allowed to read, write, delete or alter is to be allowed to describe; to alter configs, to
    describe them. To be denied one of them denies nothing else.
4.  What no rule's pattern covers is for super users only, unless `everyone_if_none`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import field
from typing import Protocol

from stratamq.model.access import (
    ANYBODY,
    ANYWHERE,
    EVERYTHING,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourceKind,
)
from stratamq.model.dataclass import dataclass

DECISIONS_MAX = 10_000
"""Remembered decisions. When the limit is reached, all are forgotten and made again."""

_READING = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
IMPLIED_BY: dict[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset(_READING),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}


class Authorizer(Protocol):
    def allows(
        self, principal: str, host: str, operation: Operation, kind: ResourceKind, name: str
    ) -> bool: ...

    def allows_any(
        self, principal: str, host: str, operation: Operation, kind: ResourceKind
    ) -> bool:
        """Whether there could be a resource of this kind on which it is allowed."""


class AllowEverything:
    """No authorizer is configured."""

    def allows(
        self, principal: str, host: str, operation: Operation, kind: ResourceKind, name: str
    ) -> bool:
        return True

    def allows_any(
        self, principal: str, host: str, operation: Operation, kind: ResourceKind
    ) -> bool:
        return True


@dataclass(slots=True)
class _Patterns:
    """The rules of one kind of resource, by name, so that few of them have to be checked."""

    literal: dict[str, list[AclRule]] = field(default_factory=dict)
    prefixed: dict[str, list[AclRule]] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)

    def add(self, rule: AclRule) -> None:
        is_prefix = rule.pattern is PatternType.PREFIXED
        (self.prefixed if is_prefix else self.literal).setdefault(rule.name, []).append(rule)
        if is_prefix and len(rule.name) not in self.lengths:
            self.lengths.append(len(rule.name))

    def covering(self, name: str) -> Iterator[AclRule]:
        yield from self.literal.get(name, ())
        if name != EVERYTHING:
            yield from self.literal.get(EVERYTHING, ())
        for length in self.lengths:
            if length <= len(name):
                yield from self.prefixed.get(name[:length], ())


class AclAuthorizer:
    """A Authorizer over a fixed set of rules. Remembers what it decided."""

    def __init__(
        self,
        rules: Iterable[AclRule],
        *,
        super_users: Collection[str] = (),
        everyone_if_none: bool = False,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._everyone_if_none = everyone_if_none
        self._kinds: dict[ResourceKind, _Patterns] = {}
        for rule in rules:
            self._kinds.setdefault(rule.kind, _Patterns()).add(rule)
        self._decided: dict[tuple[str, str, int, int, str], bool] = {}

    def allows(
        self, principal: str, host: str, operation: Operation, kind: ResourceKind, name: str
    ) -> bool:
        asked = (principal, host, operation, kind, name)
        decided = self._decided.get(asked)
        if decided is None:
            if len(self._decided) >= DECISIONS_MAX:
                self._decided.clear()
            decided = self._decided[asked] = self._decide(principal, host, operation, kind, name)
        return decided

    def _decide(
        self, principal: str, host: str, operation: Operation, kind: ResourceKind, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
        covering = list(self._kinds.get(kind, _Patterns()).covering(name))
        if not covering:
            return self._everyone_if_none
        mine = [rule for rule in covering if concerns(rule, principal, host)]
        return not any(denies(rule, operation) for rule in mine) and any(
            grants(rule, operation) for rule in mine
        )

    def allows_any(
        self, principal: str, host: str, operation: Operation, kind: ResourceKind
    ) -> bool:
        if principal in self._super_users:
            return True
        patterns = self._kinds.get(kind, _Patterns())
        rules = [
            rule
            for by_name in (patterns.literal, patterns.prefixed)
            for several in by_name.values()
            for rule in several
        ]
        mine = [rule for rule in rules if concerns(rule, principal, host)]
        denials = [rule for rule in mine if denies(rule, operation)]
        if any(_is_wildcard(rule) for rule in denials):
            return False
        if self._everyone_if_none:
            return True
        granted = [rule for rule in mine if grants(rule, operation)]
        return any(not any(_takes_all(no, yes) for no in denials) for yes in granted)


def concerns(rule: AclRule, principal: str, host: str) -> bool:
    return rule.principal in (principal, ANYBODY) and rule.host in (host, ANYWHERE)


def denies(rule: AclRule, operation: Operation) -> bool:
    return rule.permission is Permission.DENY and rule.operation in (operation, Operation.ALL)


def grants(rule: AclRule, operation: Operation) -> bool:
    if rule.permission is not Permission.ALLOW:
        return False
    if rule.operation in (operation, Operation.ALL):
        return True
    return rule.operation in IMPLIED_BY.get(operation, ())


def _takes_all(no: AclRule, yes: AclRule) -> bool:
    """Whether a denial covers everything that a pattern allows."""
    if no.pattern is PatternType.LITERAL:
        return _is_wildcard(no) or (no.pattern is yes.pattern and no.name == yes.name)
    return not _is_wildcard(yes) and yes.name.startswith(no.name)


def _is_wildcard(rule: AclRule) -> bool:
    return rule.pattern is PatternType.LITERAL and rule.name == EVERYTHING
