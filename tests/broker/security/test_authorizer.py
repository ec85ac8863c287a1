"""The authorizer against a naive one that follows Kafka's words, and its laws one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.broker.kafka.security import authorizer as authorizing
from stratamq.broker.kafka.security.acls import AclFilter, member_of
from stratamq.broker.kafka.security.authorizer import AclAuthorizer
from stratamq.model.access import (
    OPERATIONS,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourceKind,
)
from stratamq.model.errors import InvalidInput
from tests.broker.security.support import rule

ALICE, BOB = "User:alice", "User:bob"
HOME, AWAY = "10.0.0.1", "10.0.0.2"
TOPIC = ResourceKind.TOPIC

names = st.sampled_from(["a", "ab", "abc", "b", "*"])
kinds = st.sampled_from([ResourceKind.TOPIC, ResourceKind.GROUP])
principals = st.sampled_from([ALICE, BOB, "User:*"])
hosts = st.sampled_from([HOME, AWAY, "*"])
operations = st.sampled_from(sorted(OPERATIONS[TOPIC] | {Operation.ALL}))
patterns = st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED])
permissions = st.sampled_from([Permission.ALLOW, Permission.DENY])
rules = st.builds(
    AclRule,
    kind=kinds,
    pattern=patterns,
    name=names,
    principal=principals,
    host=hosts,
    operation=operations,
    permission=permissions,
)
asked_operations = st.sampled_from(sorted(OPERATIONS[TOPIC]))
asked_names = st.sampled_from(["a", "ab", "abc", "abcd", "b", "c"])

GRANTED_BY = {
    Operation.DESCRIBE: {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER", "ALL"},
    Operation.DESCRIBE_CONFIGS: {"DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALL"},
}


def naive(
    known: list[AclRule],
    principal: str,
    host: str,
    operation: Operation,
    kind: ResourceKind,
    name: str,
    everyone_if_none: bool,
) -> bool:
    """Word for word what Kafka's documentation says."""
    about = []
    for one in known:
        literal = one.pattern is PatternType.LITERAL
        hit = one.name in (name, "*") if literal else name.startswith(one.name)
        if one.kind is kind and hit:
            about.append(one)
    if not about:
        return everyone_if_none
    allowed = False
    for one in about:
        if one.principal not in (principal, "User:*") or one.host not in (host, "*"):
            continue
        if one.permission is Permission.DENY and one.operation.name in (operation.name, "ALL"):
            return False
        if one.permission is Permission.ALLOW:
            enough = GRANTED_BY.get(operation, {operation.name, "ALL"})
            allowed = allowed or one.operation.name in enough
    return allowed


@given(
    st.lists(rules, max_size=8),
    st.sampled_from([ALICE, BOB]),
    st.sampled_from([HOME, AWAY]),
    asked_operations,
    kinds,
    asked_names,
    st.booleans(),
)
def test_it_decides_as_the_naive_one(
    known: list[AclRule],
    principal: str,
    host: str,
    operation: Operation,
    kind: ResourceKind,
    name: str,
    everyone_if_none: bool,
) -> None:
    authorizer = AclAuthorizer(known, everyone_if_none=everyone_if_none)
    wanted = naive(known, principal, host, operation, kind, name, everyone_if_none)
    for _ in range(2):  # decided, and remembered
        assert authorizer.allows(principal, host, operation, kind, name) is wanted


@given(st.lists(rules, max_size=6), st.sampled_from([ALICE, BOB]), asked_operations, kinds)
def test_any_is_there_when_one_is(
    known: list[AclRule], principal: str, operation: Operation, kind: ResourceKind
) -> None:
    """Of names that no denial speaks of by itself: one below each pattern."""
    authorizer = AclAuthorizer(known)
    tried = {one.name + tail for one in known for tail in ("", "~")} | {"~"}
    some = any(authorizer.allows(principal, HOME, operation, kind, name) for name in tried)
    assert authorizer.allows_any(principal, HOME, operation, kind) is some


READ = rule(Operation.READ, TOPIC, "orders", principal=ALICE)


def test_a_rule_for_one_host_is_for_that_host() -> None:
    authorizer = AclAuthorizer([replace(READ, host=HOME)])
    assert authorizer.allows(ALICE, HOME, Operation.READ, TOPIC, "orders")
    assert not authorizer.allows(ALICE, AWAY, Operation.READ, TOPIC, "orders")
    assert not authorizer.allows(BOB, HOME, Operation.READ, TOPIC, "orders")


def test_a_denial_wins_whatever_came_first() -> None:
    denial = replace(READ, permission=Permission.DENY)
    for known in ([READ, denial], [denial, READ]):
        assert not AclAuthorizer(known).allows(ALICE, HOME, Operation.READ, TOPIC, "orders")


@pytest.mark.parametrize("operation", sorted(OPERATIONS[TOPIC]))
def test_what_an_operation_brings_along(operation: Operation) -> None:
    authorizer = AclAuthorizer([replace(READ, operation=operation)])
    brought = {
        one for one in OPERATIONS[TOPIC] if authorizer.allows(ALICE, HOME, one, TOPIC, "orders")
    }
    describing = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    expected = {operation}
    expected |= {Operation.DESCRIBE} if operation in describing else set()
    expected |= {Operation.DESCRIBE_CONFIGS} if operation is Operation.ALTER_CONFIGS else set()
    assert brought == expected


def test_super_users_are_bound_by_no_rule() -> None:
    denial = replace(READ, permission=Permission.DENY, operation=Operation.ALL)
    authorizer = AclAuthorizer([denial], super_users=[ALICE])
    assert authorizer.allows(ALICE, HOME, Operation.READ, TOPIC, "orders")
    assert authorizer.allows_any(ALICE, HOME, Operation.WRITE, TOPIC)
    assert not authorizer.allows(BOB, HOME, Operation.READ, TOPIC, "orders")


def test_decisions_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizing, "DECISIONS_MAX", 10)
    authorizer = AclAuthorizer([READ])
    for number in range(100):
        authorizer.allows(ALICE, HOME, Operation.READ, TOPIC, f"t{number}")
    assert len(authorizer._decided) <= 10
    assert authorizer.allows(ALICE, HOME, Operation.READ, TOPIC, "orders")


# -- filters ---------------------------------------------------------------------------------------


@given(rules)
def test_the_widest_and_the_narrowest_filter_match(one: AclRule) -> None:
    narrow = AclFilter(
        kind=one.kind,
        pattern=one.pattern,
        name=one.name,
        principal=one.principal,
        host=one.host,
        operation=one.operation,
        permission=one.permission,
    )
    assert AclFilter().matches(one)
    assert narrow.matches(one)
    other = {
        "kind": ResourceKind.CLUSTER,
        "name": "other",
        "principal": "User:other",
        "host": "other",
        "operation": Operation.CLUSTER_ACTION,
    }
    for field, value in other.items():
        assert not replace(narrow, **{field: value}).matches(one), field  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "name", "matched"),
    [
        (PatternType.MATCH, "abc", {"abc", "*", "ab+"}),
        (PatternType.MATCH, "ab", {"*", "ab+"}),
        (PatternType.MATCH, None, {"abc", "*", "ab+", "abcd+"}),
        (PatternType.ANY, "ab", {"ab+"}),
        (PatternType.ANY, "*", {"*"}),
        (PatternType.LITERAL, None, {"abc", "*"}),
        (PatternType.LITERAL, "ab", set()),
        (PatternType.PREFIXED, "ab", {"ab+"}),
    ],
)
def test_patterns_in_filters(pattern: PatternType, name: str | None, matched: set[str]) -> None:
    known = {
        "abc": rule(Operation.READ, TOPIC, "abc"),
        "*": rule(Operation.READ, TOPIC, "*"),
        "ab+": rule(Operation.READ, TOPIC, "ab", pattern=PatternType.PREFIXED),
        "abcd+": rule(Operation.READ, TOPIC, "abcd", pattern=PatternType.PREFIXED),
    }
    wanted = AclFilter(pattern=pattern, name=name)
    assert {label for label, one in known.items() if wanted.matches(one)} == matched


@pytest.mark.parametrize("number", [0, -1, 99])
def test_words_that_are_not_known_are_refused(number: int) -> None:
    with pytest.raises(InvalidInput):
        member_of(Operation, number)
