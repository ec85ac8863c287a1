"""Which requests change something, and what an audit log says of each. Pure: messages in, changes
out.

Every API is in one of two tables: `AUDITED`, or `READ_ONLY` with the data path. A test compares
them with the protocol's. Secrets stay out: no credentials, no values of configs that are not known
to be harmless, and no keys of deleted records, which may be a person's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from itertools import islice
from typing import Any

from stratamq.broker.kafka.admin.configs.entries import is_secret
from stratamq.meta.access import Mechanism
from stratamq.model.access import Operation, PatternType, Permission, ResourceKind
from stratamq.model.config import ALL_SETTINGS, GROUP_SETTINGS
from stratamq.model.dataclass import dataclass
from stratamq.model.settings.kafka_names import broker_name
from stratamq.model.settings.topic import TOPIC_SETTINGS
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.errors import CODE_FIELDS, ERROR_CODES
from stratamq.wire.kafka.protocol.schema import fields_of

ITEMS_MAX = 100
"""Of a list in the details of one change. Above: the rest is left out, and counted in `more`."""

HIDDEN = "(hidden)"

DENIED: Mapping[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
}
"""Errors for lack of a right, and what it was missing on."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that a request changed, or tried to."""

    resource: str
    name: str
    code: int = 0
    details: Mapping[str, object] = field(default_factory=dict)


Changes = Callable[[Any, Any], Iterable[Change]]
"""Request and response in."""


def _is_real(request: Any) -> bool:
    return not getattr(request, "validate_only", False)


@dataclass(frozen=True, slots=True)
class AuditedApi:
    """`applies` says whether a request could change something that an administrator should know of.
    Where the work of consumers may look like an administrator's, `group` names the group that a
    request is about: its events are limited for each."""

    action: str
    changes: Changes
    applies: Callable[[Any], bool] = _is_real
    group: Callable[[Any], str] | None = None


# -- topics and configs ----------------------------------------------------------------------------


def _created(request: Any, response: Any) -> Iterator[Change]:
    asked = {one.name: one for one in request.topics}
    for result in response.topics:
        topic = asked[result.name]
        configs = ((one.name, shown(one.name, one.value)) for one in topic.configs)
        details = {"partitions": topic.num_partitions, "replicas": topic.replication_factor}
        yield Change("topic", result.name, result.error_code, details | _few("configs", configs))


def _deleted(request: Any, response: Any) -> Iterator[Change]:
    for result in response.responses:
        yield Change("topic", result.name or result.topic_id.hex(), result.error_code)


def _widened(request: Any, response: Any) -> Iterator[Change]:
    counts = {one.name: one.count for one in request.topics}
    for result in response.results:
        details = {"partitions": counts.get(result.name)}
        yield Change("topic", result.name, result.error_code, details)


_CONFIG_KINDS = {2: "topic", 4: "broker", 8: "broker logger", 32: "group"}
_OPERATIONS = {0: "set", 1: "delete", 2: "append", 3: "subtract"}


def _configured(request: Any, response: Any) -> Iterator[Change]:
    asked = {(one.resource_type, one.resource_name): one.configs for one in request.resources}
    for result in response.responses:
        key = result.resource_type, result.resource_name
        details: dict[str, Any] = defaultdict(dict)
        configs = asked.get(key, ())
        for config in islice(configs, ITEMS_MAX):
            operation = _OPERATIONS.get(getattr(config, "config_operation", 0), "unknown")
            details[operation][config.name] = shown(config.name, config.value)
        if len(configs) > ITEMS_MAX:
            details["more"] = len(configs) - ITEMS_MAX
        kind = _CONFIG_KINDS.get(result.resource_type, str(result.resource_type))
        yield Change(kind, result.resource_name, result.error_code, details)


_HARMLESS = frozenset(
    name
    for name in (*TOPIC_SETTINGS, *GROUP_SETTINGS, *ALL_SETTINGS, *map(broker_name, ALL_SETTINGS))
    if not is_secret(name)
)


def shown(name: str, value: str | None) -> str | None:
    """The value of a config, if it is one of ours and cannot hold a password. Of other names we
    cannot know: Kafka's sasl.jaas.config has one, and so has a URL with a user."""
    if value is None:
        return None
    has_user = "://" in value and "@" in value
    return value if name in _HARMLESS and not has_user else HIDDEN


# -- records and groups ----------------------------------------------------------------------------


def _truncated(request: Any, response: Any) -> Iterator[Change]:
    for topic in response.topics:
        for one in topic.partitions:
            details = {"partition": one.partition_index, "start": one.low_watermark}
            yield Change("topic", topic.name, one.error_code, details)


def _erased(request: Any, response: Any) -> Iterator[Change]:
    """One for each partition: a request may name thousands of keys."""
    deleted: dict[tuple[str, int, int], int] = defaultdict(int)
    for one in response.topics:
        deleted[one.name, one.partition_index, one.error_code] += one.deleted
    for (name, partition, code), count in deleted.items():
        details = {"partition": partition, "records": count}
        yield Change("topic", name, code, details)


def _groups_deleted(request: Any, response: Any) -> Iterator[Change]:
    for result in response.results:
        yield Change("group", result.group_id, result.error_code)


def _has_no_member(request: Any) -> bool:
    """Members commit all the time. Without one it is an administrator who resets a group, or a
    consumer that divides partitions by itself."""
    return not request.member_id and request.generation_id_or_member_epoch < 0


def _offsets_set(request: Any, response: Any) -> Iterator[Change]:
    asked = {
        (_topic(topic), one.partition_index): one.committed_offset
        for topic in request.topics
        for one in topic.partitions
    }
    yield from _by_code(request.group_id, asked, response)


def _offsets_deleted(request: Any, response: Any) -> Iterator[Change]:
    if response.error_code:
        yield Change("group", request.group_id, response.error_code)
    yield from _by_code(request.group_id, {}, response)


def _by_code(group: str, asked: Mapping[tuple[str, int], int], response: Any) -> Iterator[Change]:
    """One change for each result: what was refused must not hide what was made."""
    found: dict[int, list[tuple[str, object]]] = defaultdict(list)
    for topic in response.topics:
        for one in topic.partitions:
            key = _topic(topic), one.partition_index
            found[one.error_code].append((f"{key[0]}-{key[1]}", asked.get(key)))
    for code, offsets in found.items():
        yield Change("group", group, code, _few("offsets", offsets))


def _topic(topic: Any) -> str:
    return str(topic.name or getattr(topic, "topic_id", b"").hex())


def makes_something(response: Any) -> bool:
    """Whether the answer to a commit accepts at least one partition."""
    return any(not one.error_code for topic in response.topics for one in topic.partitions)


# -- rules, users and quotas -----------------------------------------------------------------------


def _rules_created(request: Any, response: Any) -> Iterator[Change]:
    for rule, result in zip(request.creations, response.results, strict=False):
        kind = _named(ResourceKind, rule.resource_type)
        details = _rule(rule, rule.resource_pattern_type)
        yield Change(kind, rule.resource_name, result.error_code, details)


def _rules_deleted(request: Any, response: Any) -> Iterator[Change]:
    for result in response.filter_results:
        if result.error_code:
            yield Change("cluster", "", result.error_code)
        for rule in result.matching_acls:
            kind = _named(ResourceKind, rule.resource_type)
            details = _rule(rule, rule.pattern_type)
            yield Change(kind, rule.resource_name, rule.error_code, details)


def _rule(rule: Any, pattern: int) -> dict[str, object]:
    return {
        "principal": rule.principal,
        "host": rule.host,
        "operation": _named(Operation, rule.operation),
        "permission": _named(Permission, rule.permission_type),
        "pattern": _named(PatternType, pattern),
    }


_MECHANISMS = {1: Mechanism.SHA_256.value, 2: Mechanism.SHA_512.value}


def _users_altered(request: Any, response: Any) -> Iterator[Change]:
    details: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for one in request.deletions:
        details[one.name]["deleted"].append(_MECHANISMS.get(one.mechanism, str(one.mechanism)))
    for one in request.upsertions:
        details[one.name]["set"].append(_MECHANISMS.get(one.mechanism, str(one.mechanism)))
    for result in response.results:
        yield Change("user", result.user, result.error_code, details[result.user])


def _quotas_altered(request: Any, response: Any) -> Iterator[Change]:
    asked = {_entity(one.entity): one.ops for one in request.entries}
    for result in response.entries:
        name = _entity(result.entity)
        values = ((op.key, None if op.remove else op.value) for op in asked.get(name, ()))
        yield Change("quota", name, result.error_code, dict(islice(values, ITEMS_MAX)))


def _entity(entity: Iterable[Any]) -> str:
    named = ((one.entity_type, one.entity_name) for one in entity)
    return ",".join(f"{kind}={'(default)' if name is None else name}" for kind, name in named)


# -- history, and the rest -------------------------------------------------------------------------


def _flushed(request: Any, response: Any) -> Iterator[Change]:
    for result in response.topics:
        details: dict[str, object] = {"files": result.files, "rows": result.rows}
        if request.moves:
            details = {"moved_bytes": result.moved_bytes, "freed_bytes": result.freed_bytes}
        details["moves"] = request.moves
        yield Change("topic", result.name, result.error_code, details)


def _committed(request: Any, response: Any) -> Iterator[Change]:
    for result in response.topics:
        yield Change("topic", result.name, result.error_code)


def whole(resource: str, name: Callable[[Any], object] = lambda _: "") -> Changes:
    """One change for the request, with its first error."""

    def changes(request: Any, response: Any) -> Iterator[Change]:
        yield Change(resource, str(name(request)), _first_code(response))

    return changes


def _names(items: str, name: str = "name") -> Callable[[Any], str]:
    def names(request: Any) -> str:
        found = getattr(request, items) or ()
        return ",".join(getattr(one, name) for one in islice(found, ITEMS_MAX))

    return names


def _first_code(response: Any) -> int:
    return next(iter(ERROR_CODES[type(response)](response)), 0)


def _few(name: str, items: Iterable[tuple[str, object]]) -> dict[str, object]:
    rest = iter(items)
    few = dict(islice(rest, ITEMS_MAX))
    more = sum(1 for _ in rest)
    return {name: few, "more": more} if more else {name: few}


def _named(words: Any, number: int) -> str:
    try:
        return str(words(number).name).lower()
    except ValueError:
        return str(number)


# -- denied ----------------------------------------------------------------------------------------

_NAMES = (
    "name",
    "topic",
    "topic_name",
    "group_id",
    "resource_name",
    "transactional_id",
    "topic_id",
)


def denied(request: Any | None, response: Any) -> Iterator[Change]:
    """What an answer refuses for lack of a right: for the APIs that are not audited."""
    for code, name in dict.fromkeys(_denied_in(response, _name_of(request))):
        yield Change(DENIED[code], name, code)


def _denied_in(part: Any, name: str) -> Iterator[tuple[int, str]]:
    name = _name_of(part) or name
    for one in fields_of(type(part)):
        value = getattr(part, one.name)
        if one.name in CODE_FIELDS and value in DENIED:
            yield value, name
        elif isinstance(value, list | tuple) and value and not isinstance(value[0], int | str):
            for item in value:
                if not isinstance(item, bytes):
                    yield from _denied_in(item, name)


def _name_of(part: Any) -> str:
    for one in _NAMES:
        value = getattr(part, one, None)
        if isinstance(value, bytes):
            value = value.hex().strip("0") and value.hex()
        if value:
            return str(value)
    return ""


# -- the tables ------------------------------------------------------------------------------------

AUDITED: Mapping[str, AuditedApi] = {
    "CreateTopics": AuditedApi("topic.create", _created),
    "DeleteTopics": AuditedApi("topic.delete", _deleted),
    "CreatePartitions": AuditedApi("topic.partitions", _widened),
    "AlterConfigs": AuditedApi("config.replace", _configured),
    "IncrementalAlterConfigs": AuditedApi("config.alter", _configured),
    "DeleteRecords": AuditedApi("records.delete", _truncated),
    "DeleteSelectedRecords": AuditedApi("records.delete", _erased),
    "DeleteGroups": AuditedApi("group.delete", _groups_deleted),
    "OffsetCommit": AuditedApi(
        "offsets.set", _offsets_set, _has_no_member, lambda request: request.group_id
    ),
    "OffsetDelete": AuditedApi("offsets.delete", _offsets_deleted),
    "CreateAcls": AuditedApi("acl.create", _rules_created),
    "DeleteAcls": AuditedApi("acl.delete", _rules_deleted),
    "AlterUserScramCredentials": AuditedApi("user.alter", _users_altered),
    "AlterClientQuotas": AuditedApi("quota.alter", _quotas_altered),
    "FlushLake": AuditedApi("lake.flush", _flushed),
    "CommitLake": AuditedApi("lake.commit", _committed),
    "BackUp": AuditedApi(
        "backup.make",
        whole("backup", lambda request: request.name),
        lambda request: request.begins,
    ),
    "ElectLeaders": AuditedApi(
        "leaders.elect", whole("topic", _names("topic_partitions", "topic"))
    ),
    "AlterPartitionReassignments": AuditedApi("replicas.move", whole("topic", _names("topics"))),
    "AlterReplicaLogDirs": AuditedApi("replicas.move", whole("folder", _names("dirs", "path"))),
    "WriteTxnMarkers": AuditedApi("transaction.end", whole("cluster")),
    "UnregisterBroker": AuditedApi(
        "broker.unregister", whole("broker", lambda request: request.broker_id)
    ),
    "UpdateFeatures": AuditedApi(
        "features.update", whole("cluster", _names("feature_updates", "feature"))
    ),
}

READ_ONLY = frozenset(
    {
        # They change nothing.
        *("ApiVersions", "DescribeCluster", "DescribeTopicPartitions", "DescribeLogDirs"),
        *("ListOffsets", "OffsetForLeaderEpoch", "OffsetFetch", "FindCoordinator", "Fetch"),
        *("DescribeGroups", "ListGroups", "ConsumerGroupDescribe", "DescribeQuorum"),
        *("DescribeConfigs", "ListConfigResources", "ListPartitionReassignments"),
        *("DescribeAcls", "DescribeClientQuotas", "DescribeUserScramCredentials"),
        *("DescribeProducers", "DescribeTransactions", "ListTransactions", "DescribeLake"),
        "CheckNode",
        # The work of producers and consumers.
        *("Produce", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn"),
        *("TxnOffsetCommit", "EndTxn"),
        *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat"),
        # Failed logins, and topics that Metadata creates, are reported where they happen.
        *("SaslHandshake", "SaslAuthenticate", "Metadata"),
    }
)
"""Not audited, unless it is denied."""
