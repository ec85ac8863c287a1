"""Names in certificates to principals, by Kafka's rules."""

from __future__ import annotations

import pytest

from stratamq.broker.kafka.security.principals import NAME_CHARS_MAX, PrincipalRules
from stratamq.model.errors import InvalidConfig

NAME = "CN=Reports,OU=Services,O=Example"
FIRST_PART = r"RULE:^CN=(.*?),OU=Services.*$/$1/"


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("", f"User:{NAME}"),
        ("DEFAULT", f"User:{NAME}"),
        (FIRST_PART, "User:Reports"),
        (FIRST_PART + "L", "User:reports"),
        (FIRST_PART + "U", "User:REPORTS"),
        ("RULE:^CN=nobody$/x/, " + FIRST_PART + "L , DEFAULT", "User:reports"),
        ("RULE:^CN=nobody$/x/,DEFAULT", f"User:{NAME}"),
        ("RULE:^CN=nobody$/x/", None),
        (r"RULE:^CN=(\w+),OU=(\w+),.*$/$2\/$1/", "User:Services/Reports"),
        ("RULE:CN=Reports/x/", None),
        (r"RULE:^.*$//", None),
    ],
)
def test_the_first_rule_that_matches_decides(rules: str, principal: str | None) -> None:
    assert PrincipalRules(rules).principal(f"User:{NAME}") == principal


@pytest.mark.parametrize("rules", ["RULE", "RULE:a/b/X", "RULE:(/b/", "RULE:a/$1/", "DEFAULTS"])
def test_rules_that_cannot_be_read_are_refused(rules: str) -> None:
    with pytest.raises(InvalidConfig):
        PrincipalRules(rules)


def test_a_name_without_end_is_nobodys() -> None:
    assert PrincipalRules("DEFAULT").principal("User:CN=" + "x" * NAME_CHARS_MAX) is None
