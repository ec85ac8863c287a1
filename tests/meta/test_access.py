"""Rules, credentials and quotas: kept once, refused when they make no sense, gone when deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stratamq.meta.access import (
    AlterQuota,
    CreateAcl,
    Credential,
    CredentialKey,
    DeleteAcl,
    DeleteCredential,
    Mechanism,
    QuotaScope,
    SaveCredential,
)
from stratamq.meta.apply import apply
from stratamq.meta.limits import MetaLimits, check_limits
from stratamq.meta.state import MetaState
from stratamq.meta.store import entity_of, row_key, row_value
from stratamq.model.access import AclRule, Operation, PatternType, Permission, ResourceKind
from stratamq.model.errors import CapacityExceeded, InvalidInput, NotFound
from tests.meta.support import after

RULE = AclRule(
    kind=ResourceKind.TOPIC,
    pattern=PatternType.LITERAL,
    name="orders",
    principal="User:alice",
    host="*",
    operation=Operation.READ,
    permission=Permission.ALLOW,
)
ALICE = Credential(
    user="alice",
    mechanism=Mechanism.SHA_256,
    iterations=4096,
    salt="5a" * 16,
    stored_key="c3" * 32,
    server_key="e7" * 32,
)
SCOPE = QuotaScope("alice", "app")


def test_a_rule_is_there_once_and_then_gone() -> None:
    state = after(CreateAcl(rule=RULE), CreateAcl(rule=RULE))
    assert (list(state.acls), state.revision) == ([RULE], 1)
    assert not after(DeleteAcl(rule=RULE), DeleteAcl(rule=RULE), state=state).acls


@pytest.mark.parametrize(
    "change",
    [
        {"kind": ResourceKind.ANY},
        {"kind": ResourceKind.DELEGATION_TOKEN},
        {"pattern": PatternType.MATCH},
        {"permission": Permission.ANY},
        {"operation": Operation.ANY},
        {"operation": Operation.IDEMPOTENT_WRITE},
        {"name": ""},
        {"principal": "alice"},
        {"principal": ":alice"},
        {"host": ""},
        {"name": "x" * 1025},
    ],
)
def test_a_rule_that_could_never_match_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        apply(MetaState(), CreateAcl(rule=replace(RULE, **change)))  # type: ignore[arg-type]


def test_the_newest_credential_counts() -> None:
    newer = replace(ALICE, stored_key="00")
    state = after(SaveCredential(credential=ALICE), SaveCredential(credential=newer))
    assert state.credentials[CredentialKey("alice", Mechanism.SHA_256)] == newer
    gone = DeleteCredential(user="alice", mechanism=Mechanism.SHA_256)
    assert not after(gone, state=state).credentials
    with pytest.raises(NotFound):
        apply(state, replace(gone, mechanism=Mechanism.SHA_512))


@pytest.mark.parametrize(
    "change",
    [
        *({"user": ""}, {"iterations": 4095}, {"iterations": 16_385}),
        *({"salt": ""}, {"salt": "00" * 1025}),
    ],
)
def test_a_weak_credential_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        apply(MetaState(), SaveCredential(credential=replace(ALICE, **change)))  # type: ignore[arg-type]


def test_a_credential_shows_no_secret() -> None:
    shown = repr(after(SaveCredential(credential=ALICE)))
    assert "alice" in shown
    assert not any(secret in shown for secret in ("5a5a", "c3c3", "e7e7"))


def test_limits_of_a_quota_come_and_go_one_by_one() -> None:
    state = after(AlterQuota(scope=SCOPE, put={"producer_byte_rate": 10.0}))
    state = after(AlterQuota(scope=SCOPE, put={"request_percentage": 5.0}), state=state)
    assert state.quotas[SCOPE].limits == {"producer_byte_rate": 10.0, "request_percentage": 5.0}
    less = frozenset({"producer_byte_rate"})
    state = after(AlterQuota(scope=SCOPE, remove=less), state=state)
    assert state.quotas[SCOPE].limits == {"request_percentage": 5.0}
    assert not after(AlterQuota(scope=SCOPE, remove=frozenset(QUOTAS)), state=state).quotas


QUOTAS = ("producer_byte_rate", "request_percentage")


@pytest.mark.parametrize(
    "command",
    [
        AlterQuota(scope=QuotaScope(), put={"producer_byte_rate": 1.0}),
        AlterQuota(scope=SCOPE, put={"producer_byte_rat": 1.0}),
        AlterQuota(scope=SCOPE, put={"producer_byte_rate": 0.0}),
        AlterQuota(scope=SCOPE, put={"producer_byte_rate": float("nan")}),
        AlterQuota(scope=SCOPE, put={"producer_byte_rate": float("inf")}),
    ],
)
def test_a_quota_without_sense_is_refused(command: AlterQuota) -> None:
    with pytest.raises(InvalidInput):
        apply(MetaState(), command)


def test_there_is_a_limit_to_each() -> None:
    quota = AlterQuota(scope=SCOPE, put={"producer_byte_rate": 1.0})
    state = after(CreateAcl(rule=RULE), SaveCredential(credential=ALICE), quota)
    limits = MetaLimits(acls_max=1, credentials_max=1, quotas_max=1)
    for again in (CreateAcl(rule=RULE), SaveCredential(credential=ALICE), quota):
        check_limits(state, again, limits)
    for more in (
        CreateAcl(rule=replace(RULE, name="other")),
        SaveCredential(credential=replace(ALICE, user="bob")),
        AlterQuota(scope=QuotaScope("bob", None), put={"producer_byte_rate": 1.0}),
    ):
        with pytest.raises(CapacityExceeded):
            check_limits(state, more, limits)


def test_rows_are_as_the_documentation_says() -> None:
    assert row_key(RULE) == b'a["topic","literal","orders","User:alice","*","read","allow"]'
    assert row_key(ALICE) == b'u["alice","SCRAM-SHA-256"]'
    for entity in (RULE, ALICE):
        assert entity_of(row_key(entity), row_value(entity)) == entity
