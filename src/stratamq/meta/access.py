"""Rules of access, users and quotas: what the Meta Service keeps of them and how they change.

Pure, as everything behind `apply`. What a rule means is the authorizer's to say, what a credential
proves is SCRAM's; here they are only checked for being well-formed, and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import NamedTuple

from stratamq.model.access import OPERATIONS, AclRule, Operation, PatternType, Permission
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import InvalidInput, NotFound

NAME_BYTES_MAX = 1024
"""Of users, principals, hosts and names in rules: a row's key must stay small."""

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16_384
SALT_BYTES_MIN, SALT_BYTES_MAX = 1, 1024
"""Clients cannot read an empty one."""

DEFAULT = ""
"""As the name in a quota's scope: everybody who has no quota of their own."""


class Mechanism(StrEnum):
    """The hashes that credentials are kept under."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


class CredentialKey(NamedTuple):
    user: str
    mechanism: Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What proves that somebody knows a password, without being it. Bytes are hex text here."""

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
    """Whom a quota is for. None: not looked at; `DEFAULT`: those without one of their own."""

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
    """Set some limits of a scope and take others away; without any left it is forgotten."""

    scope: QuotaScope
    put: Mapping[str, float] = field(default_factory=dict)
    remove: frozenset[str] = frozenset()


AccessEntity = AclRule | Credential | Quota
AccessCommand = CreateAcl | DeleteAcl | SaveCredential | DeleteCredential | AlterQuota


# -- what is well-formed ---------------------------------------------------------------------------


def check_rule(rule: AclRule) -> None:
    """Only what can match something: no filters' words, no operation its kind does not have."""
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


def no_credential(command: DeleteCredential) -> NotFound:
    return NotFound(f"{command.user!r} has no {command.mechanism} credential")
