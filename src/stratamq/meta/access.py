"""Access rules, users and quotas in the Meta Service: what is stored of them, the commands that
change them and their rules, their rows, and the cache of a node.

The authorizer says what a rule means and SCRAM what a credential proves; here they are only checked
for being well-formed, and stored.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import NamedTuple

from stratamq.meta.client import MetaClient, WatchedCache
from stratamq.meta.rows import Fields, RowFormat, list_key
from stratamq.meta.state import Event, MetaState, Put, Removed
from stratamq.model.access import (
    OPERATIONS,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourceKind,
)
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import InvalidInput, NotFound

NAME_BYTES_MAX = 1024
"""Of users, principals, hosts and names in rules: a row's key must stay small."""

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16_384
SALT_BYTES_MIN, SALT_BYTES_MAX = 1, 1024
"""Clients cannot read an empty one."""

DEFAULT = ""
"""As the name in a quota's scope: every user or client without a quota of its own."""


class Mechanism(StrEnum):
    """The hashes that credentials are stored under."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


class CredentialKey(NamedTuple):
    user: str
    mechanism: Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What proves that a user knows a password, without being it. Bytes are hex text here."""

    user: str
    mechanism: Mechanism
    iterations: int
    salt: str = field(repr=False)
    stored_key: str = field(repr=False)
    server_key: str = field(repr=False)

    @property
    def key(self) -> CredentialKey:
        return CredentialKey(self.user, self.mechanism)


class QuotaScope(NamedTuple):
    """Whom a quota is for. None: any; `DEFAULT`: users or clients without one of their own."""

    user: str | None = None
    client_id: str | None = None

    def __lt__(self, other: tuple[str | None, ...]) -> bool:
        """None comes before every name, the empty one too."""
        return [(one is not None, one or "") for one in self] < [
            (one is not None, one or "") for one in other
        ]


QUOTAS = ("consumer_byte_rate", "producer_byte_rate", "request_percentage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """All limits of a scope, by name."""

    scope: QuotaScope
    limits: Mapping[str, float]

    @property
    def key(self) -> QuotaScope:
        return self.scope


# -- commands --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAcl:
    """Idempotent."""

    rule: AclRule


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAcl:
    """Idempotent."""

    rule: AclRule


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveCredential:
    credential: Credential


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteCredential:
    user: str
    mechanism: Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuota:
    """Set some limits of a scope and remove others; without any left it is forgotten."""

    scope: QuotaScope
    put: Mapping[str, float] = field(default_factory=dict)
    remove: frozenset[str] = frozenset()


# -- rules -----------------------------------------------------------------------------------------


def check_rule(rule: AclRule) -> None:
    """Refuse rules that can match nothing: words of filters, operations their kind does not
    have."""
    if rule.kind not in OPERATIONS:
        raise InvalidInput(f"rules for {rule.kind.name} are not kept")
    if rule.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidInput(f"a rule's pattern cannot be {rule.pattern.name}")
    if rule.permission not in (Permission.ALLOW, Permission.DENY):
        raise InvalidInput(f"a rule's permission cannot be {rule.permission.name}")
    if rule.operation is not Operation.ALL and rule.operation not in OPERATIONS[rule.kind]:
        raise InvalidInput(f"{rule.operation.name} is no operation on {rule.kind.name}")
    for text in (rule.name, rule.principal, rule.host):
        check_name(text)
    kind, _, name = rule.principal.partition(":")
    if not kind or not name:
        raise InvalidInput(f"{rule.principal!r} is no principal; one is User:name")


def check_credential(credential: Credential) -> None:
    check_name(credential.user)
    if not ITERATIONS_MIN <= credential.iterations <= ITERATIONS_MAX:
        raise InvalidInput(f"iterations are {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    if not SALT_BYTES_MIN <= len(credential.salt) // 2 <= SALT_BYTES_MAX:
        raise InvalidInput(f"a salt has {SALT_BYTES_MIN} to {SALT_BYTES_MAX} bytes")


def check_quota(command: AlterQuota) -> None:
    if command.scope == QuotaScope():
        raise InvalidInput("a quota is for a user, a client id or both")
    for name in (*command.put, *command.remove):
        if name not in QUOTAS:
            raise InvalidInput(f"there is no quota {name!r}")
    for name, limit in command.put.items():
        if not 0 < limit < float("inf"):
            raise InvalidInput(f"{name} is a number above 0, not {limit}")
    for text in command.scope:
        if text:
            check_name(text)


def check_name(text: str) -> None:
    if not text:
        raise InvalidInput("a name is empty")
    if len(text.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise InvalidInput(f"a name has at most {NAME_BYTES_MAX} bytes")


def create_acl(state: MetaState, command: CreateAcl) -> list[Event]:
    check_rule(command.rule)
    return [] if command.rule in state.acls else [Put(command.rule)]


def delete_acl(state: MetaState, command: DeleteAcl) -> list[Event]:
    return [Removed(command.rule)] if command.rule in state.acls else []


def save_credential(state: MetaState, command: SaveCredential) -> list[Event]:
    check_credential(command.credential)
    return [Put(command.credential)]


def delete_credential(state: MetaState, command: DeleteCredential) -> list[Event]:
    old = state.credentials.get(CredentialKey(command.user, command.mechanism))
    if old is None:
        raise NotFound(f"{command.user!r} has no {command.mechanism} credential")
    return [Removed(old)]


def alter_quota(state: MetaState, command: AlterQuota) -> list[Event]:
    check_quota(command)
    old = state.quotas.get(command.scope)
    limits = dict(old.limits) if old is not None else {}
    for name in command.remove:
        limits.pop(name, None)
    limits |= command.put
    if limits:
        return [Put(Quota(scope=command.scope, limits=limits))]
    return [] if old is None else [Removed(old)]


# -- rows ------------------------------------------------------------------------------------------


def _rule_fields(rule: AclRule) -> Fields:
    return {
        "kind": rule.kind.name.lower(),
        "pattern": rule.pattern.name.lower(),
        "name": rule.name,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name.lower(),
        "permission": rule.permission.name.lower(),
    }


def _rule(fields: Fields) -> AclRule:
    return AclRule(
        kind=ResourceKind[fields["kind"].upper()],
        pattern=PatternType[fields["pattern"].upper()],
        name=fields["name"],
        principal=fields["principal"],
        host=fields["host"],
        operation=Operation[fields["operation"].upper()],
        permission=Permission[fields["permission"].upper()],
    )


def _quota_fields(quota: Quota) -> Fields:
    return {**quota.scope._asdict(), "limits": dict(quota.limits)}


def _quota(fields: Fields) -> Quota:
    scope = QuotaScope(fields["user"], fields["client_id"])
    return Quota(scope=scope, limits={name: float(one) for name, one in fields["limits"].items()})


ACCESS_ROWS = (
    RowFormat(
        AclRule, b"a", lambda rule: list_key(*_rule_fields(rule).values()), _rule, _rule_fields
    ),
    RowFormat(
        Credential,
        b"u",
        lambda one: list_key(one.user, one.mechanism),
        lambda row: Credential(**{**row, "mechanism": Mechanism(row["mechanism"])}),
    ),
    RowFormat(Quota, b"q", lambda quota: list_key(*quota.scope), _quota, _quota_fields),
)


# -- the cache of a node ---------------------------------------------------------------------------


class AccessCacheManager(WatchedCache):
    """A node's copy. `rules_version` and `quotas_version` change whenever theirs do: what a caller
    derived from them earlier is then out of date."""

    rules_version = 0
    quotas_version = 0
    _rules: set[AclRule]
    _credentials: dict[CredentialKey, Credential]

    def __init__(self, client: MetaClient, *, reconcile_s: float = 10.0) -> None:
        super().__init__(client, reconcile_s=reconcile_s)
        self._quotas: dict[QuotaScope, Quota] = {}
        self._quota_listeners: list[Callable[[], None]] = []

    def listen_for_quotas(self, listener: Callable[[], None]) -> None:
        """Call it whenever quotas were set or removed."""
        self._quota_listeners.append(listener)

    def rules(self) -> frozenset[AclRule]:
        return frozenset(self._rules)

    def credential(self, user: str, mechanism: Mechanism) -> Credential | None:
        return self._credentials.get(CredentialKey(user, mechanism))

    def credentials(self) -> Mapping[CredentialKey, Credential]:
        return self._credentials

    def quotas(self) -> Mapping[QuotaScope, Quota]:
        return self._quotas

    def _replace(self, state: MetaState) -> None:
        self._rules = set(state.acls)
        self._credentials = dict(state.credentials)
        self._quotas = dict(state.quotas)
        self.rules_version += 1
        self._quotas_changed()

    def _change(self, event: Event) -> Hashable | None:
        present = isinstance(event, Put)
        match event.entity:
            case AclRule() as rule:
                self.rules_version += 1
                (self._rules.add if present else self._rules.discard)(rule)
            case Credential() as credential:
                self._credentials.pop(credential.key, None)
                if present:
                    self._credentials[credential.key] = credential
            case Quota() as quota:
                self._quotas.pop(quota.scope, None)
                if present:
                    self._quotas[quota.scope] = quota
                self._quotas_changed()
            case _:
                pass
        return None

    def _quotas_changed(self) -> None:
        self.quotas_version += 1
        for listener in self._quota_listeners:
            listener()
