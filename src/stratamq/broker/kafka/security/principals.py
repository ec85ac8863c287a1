"""From the name in a client's certificate to a principal: `ssl.principal.mapping.rules`. Pure.

    RULE:^CN=(.*?),OU=Services.*$/$1/L, DEFAULT

The first rule whose pattern matches the whole name decides; `L` and `U` change the case of what it
gives; DEFAULT is the name itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from stratamq.model.dataclass import dataclass
from stratamq.model.errors import InvalidConfig

NAME_CHARS_MAX = 4096
"""Patterns are the operator's, names are the clients'. A longer name gets no principal."""

_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<change>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|$)"
)
_GROUP = re.compile(r"\$(\d)")
_CASES: dict[str, Callable[[str], str]] = {"": str, "L": str.lower, "U": str.upper}


@dataclass(frozen=True, slots=True)
class PrincipalRule:
    pattern: re.Pattern[str]
    change: str
    case: str

    def apply(self, name: str) -> str | None:
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        changed = _GROUP.sub(lambda group: found[int(group[1])] or "", self.change)
        return _CASES[self.case](changed)


DEFAULT = PrincipalRule(re.compile(r"(?s:(.*))"), "$1", "")


class PrincipalRules:
    """`principal` takes and gives `User:...`; None where no rule has a name for it."""

    def __init__(self, text: str) -> None:
        self._rules = _rules(text)

    def principal(self, certified: str) -> str | None:
        name = certified.removeprefix("User:")
        if len(name) > NAME_CHARS_MAX:
            return None
        for rule in self._rules:
            if (given := rule.apply(name)) is not None:
                return f"User:{given}" if given else None
        return None


def _rules(text: str) -> list[PrincipalRule]:
    rules, at = [], 0
    while at < len(text):
        found = _RULE.match(text, at)
        if found is None:
            raise InvalidConfig(f"ssl.principal.mapping.rules: cannot read {text[at:]!r}")
        rules.append(DEFAULT if found["default"] else _rule(found))
        at = found.end()
    return rules or [DEFAULT]


def _rule(found: re.Match[str]) -> PrincipalRule:
    try:
        pattern = re.compile(found["pattern"].replace("\\/", "/"))
    except re.error as error:
        raise InvalidConfig(f"ssl.principal.mapping.rules: {found[0]!r} ({error})") from None
    change = found["change"].replace("\\/", "/")
    highest = max((int(one) for one in _GROUP.findall(change)), default=0)
    if highest > pattern.groups:
        raise InvalidConfig(f"ssl.principal.mapping.rules: {found[0]!r} has no group {highest}")
    return PrincipalRule(pattern, change, found["case"])
