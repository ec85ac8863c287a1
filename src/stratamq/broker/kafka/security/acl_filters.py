"""Which rules a filter means. Pure."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from stratamq.model.access import AclRule, Operation, PatternType, Permission, ResourceKind
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import InvalidInput

E = TypeVar("E", bound=IntEnum)

_ANY = 1
"""The same number in each of the four kinds of word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """None and ANY match everything."""

    kind: ResourceKind = ResourceKind.ANY
    pattern: PatternType = PatternType.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, rule: AclRule) -> bool:
        return (
            self.kind in (_ANY, rule.kind)
            and self.operation in (_ANY, rule.operation)
            and self.permission in (_ANY, rule.permission)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self._matches_pattern(rule)
        )

    def _matches_pattern(self, rule: AclRule) -> bool:
        if self.pattern is PatternType.MATCH:
            return self.name is None or rule.covers(self.name)
        return self.pattern in (_ANY, rule.pattern) and self.name in (None, rule.name)


def word(kind: type[E], number: int) -> E:
    """The word of a number from the wire. UNKNOWN, and what we do not know, is refused."""
    try:
        found = kind(number)
    except ValueError:
        found = kind(0)
    if not found:
        raise InvalidInput(f"{number} is not a known {kind.__name__}")
    return found
