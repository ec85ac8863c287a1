"""Who may do what to what: the words of Kafka's access rules, with Kafka's numbers.

The numbers travel on the wire and are the bits of `authorized_operations`; rows hold the names.
"""

from __future__ import annotations

from enum import IntEnum

from stratamq.model.dataclass import dataclass

ANYBODY = "User:*"
ANYWHERE = "*"
EVERYTHING = "*"
"""As the name of a literal pattern: every resource of its kind."""

CLUSTER_NAME = "kafka-cluster"
"""The one resource of the kind CLUSTER."""


class ResourceKind(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """ANY and MATCH are for filters: any pattern of that name, or any that covers the name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_O = Operation
OPERATIONS: dict[ResourceKind, frozenset[Operation]] = {
    ResourceKind.TOPIC: frozenset(
        {
            *(_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE),
            *(_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
        }
    ),
    ResourceKind.GROUP: frozenset(
        {_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS}
    ),
    ResourceKind.CLUSTER: frozenset(
        {
            *(_O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION),
            *(_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE),
        }
    ),
    ResourceKind.TRANSACTIONAL_ID: frozenset({_O.WRITE, _O.DESCRIBE, _O.TWO_PHASE_COMMIT}),
}
"""What can be done to a resource of each kind; rules for anything else make no sense."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AclRule:
    """One rule. Equal rules are one rule: the fields together are its key."""

    kind: ResourceKind
    pattern: PatternType
    name: str
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @property
    def key(self) -> AclRule:
        return self

    def covers(self, name: str) -> bool:
        """Whether a resource of this name falls under the rule's pattern."""
        if self.pattern is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, EVERYTHING)
