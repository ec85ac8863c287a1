"""Entities as rows of a key-value store: the bytes are described in docs/formats/meta.md.

A key is one letter for the kind and the entity's own key; a value is a JSON object with its
version.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from stratamq.meta import access_rows
from stratamq.meta.access import Credential, Quota
from stratamq.meta.configs import topic_config
from stratamq.meta.entities import (
    Entity,
    GroupMeta,
    GroupOffset,
    NodeMeta,
    PendingOffset,
    SegmentMeta,
    ShardMeta,
    TopicMeta,
    TopicPhase,
)
from stratamq.meta.resource_configs import ConfigKind, ConfigScope, ResourceConfig
from stratamq.meta.tier import ParquetEnd, RetiredObject, TierFile, TierObject
from stratamq.meta.transactions import ProducerIds, TransactionMeta
from stratamq.model.access import AclRule
from stratamq.model.errors import InvalidInput, StorageError
from stratamq.model.shard import SegmentState
from stratamq.model.topic import Topic
from stratamq.model.transaction import TransactionState

VERSION = 1
"""Of every row's value. A change of meaning needs a new number and a reader for the old one."""

FORMAT_KEY = b"!format"
REVISION_KEY = b"!revision"

Fields = dict[str, Any]


def row_key(entity: Entity) -> bytes:
    match entity:
        case TopicMeta():
            return b"t" + entity.key.encode()
        case ShardMeta():
            return b"s" + entity.name.encode()
        case SegmentMeta():
            return b"g" + entity.shard.encode() + b"/%010d" % entity.seq
        case TierFile():
            return b"f" + entity.shard.encode() + b"/%020d" % entity.base_offset
        case RetiredObject():
            return b"d" + entity.object_key.encode()
        case NodeMeta():
            return b"n%010d" % entity.node_id
        case GroupOffset():
            return b"o" + _offset_key(entity)
        case PendingOffset():
            return b"p%020d" % entity.producer_id + _offset_key(entity)
        case GroupMeta():
            return b"m" + entity.group.encode("utf-8", "surrogatepass")
        case ProducerIds():
            return b"i"
        case TransactionMeta():
            return b"x" + entity.transactional_id.encode("utf-8", "surrogatepass")
        case ResourceConfig(scope=scope):
            return f"c{scope.kind}/{scope.name}".encode("utf-8", "surrogatepass")
        case AclRule() | Credential() | Quota():
            return access_rows.row_key(entity)


def _offset_key(entity: GroupOffset | PendingOffset) -> bytes:
    group = entity.group.encode("utf-8", "surrogatepass")
    # The length first: a group name may hold any character, a separator too.
    return len(group).to_bytes(2, "big") + group + entity.shard.encode()


def row_value(entity: Entity) -> bytes:
    return dump(_FIELDS[type(entity)](entity))


def dump(fields: Fields) -> bytes:
    return json.dumps({"v": VERSION, **fields}, separators=(",", ":")).encode()


def parse(key: bytes, value: bytes) -> Fields:
    """A row's fields; StorageError when they were written by a later version or are damaged."""
    try:
        fields: Fields = json.loads(value)
        version = fields.pop("v")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise StorageError(f"meta row {key!r} is damaged: {value[:80]!r}") from None
    if version != VERSION:
        raise StorageError(f"meta row {key!r} has version {version}; this program reads {VERSION}")
    return fields


def entity_of(key: bytes, value: bytes) -> Entity:
    fields = parse(key, value)
    try:
        return _ENTITIES[key[:1]](fields)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidInput) as error:
        raise StorageError(f"meta row {key!r} is damaged: {error!r}") from error


def _topic_fields(meta: TopicMeta) -> Fields:
    topic = meta.topic
    return {
        "topic_id": topic.topic_id,
        "name": topic.name,
        "partitions": topic.partitions,
        "replicas": topic.replicas,
        "config": dict(topic.config.given),
        "phase": meta.phase,
        "creator": meta.creator,
    }


def _topic(fields: Fields) -> TopicMeta:
    config = topic_config(fields["config"], {fields["config"].get("storage.type")})
    topic = Topic(
        topic_id=fields["topic_id"],
        name=fields["name"],
        partitions=fields["partitions"],
        replicas=fields["replicas"],
        config=config,
    )
    return TopicMeta(topic=topic, phase=TopicPhase(fields["phase"]), creator=fields["creator"])


def _plain_fields(entity: Entity) -> Fields:
    return {name: getattr(entity, name) for name in entity.__dataclass_fields__}


def _segment(fields: Fields) -> SegmentMeta:
    nodes = {name: tuple(fields[name]) for name in ("replicas", "isr")}
    return SegmentMeta(**{**fields, **nodes, "state": SegmentState(fields["state"])})


def _file(fields: Fields) -> TierFile:
    objects = {
        name: TierObject(*fields[name]) if fields[name] else None
        for name in ("parquet", "log", "index", "timeindex")
    }
    end = fields["parquet_end"]
    return TierFile(**{**fields, **objects, "parquet_end": ParquetEnd(*end) if end else None})


def _transaction_fields(entity: TransactionMeta) -> Fields:
    names = {name: sorted(getattr(entity, name)) for name in ("shards", "groups")}
    return {**_plain_fields(entity), **names}


def _transaction(fields: Fields) -> TransactionMeta:
    names = {name: frozenset(fields[name]) for name in ("shards", "groups")}
    return TransactionMeta(**{**fields, **names, "state": TransactionState(fields["state"])})


def _config_fields(entity: ResourceConfig) -> Fields:
    return {**entity.scope._asdict(), "given": dict(entity.given)}


def _config(fields: Fields) -> ResourceConfig:
    scope = ConfigScope(ConfigKind(fields["kind"]), fields["name"])
    return ResourceConfig(scope=scope, given=fields["given"])


_FIELDS: dict[type, Callable[[Any], Fields]] = {
    TopicMeta: _topic_fields,
    ShardMeta: _plain_fields,
    SegmentMeta: _plain_fields,
    TierFile: _plain_fields,
    RetiredObject: _plain_fields,
    NodeMeta: _plain_fields,
    GroupOffset: _plain_fields,
    PendingOffset: _plain_fields,
    GroupMeta: _plain_fields,
    ProducerIds: _plain_fields,
    TransactionMeta: _transaction_fields,
    AclRule: access_rows.rule_fields,
    Credential: _plain_fields,
    Quota: access_rows.quota_fields,
    ResourceConfig: _config_fields,
}

_ENTITIES: dict[bytes, Callable[[Fields], Entity]] = {
    b"t": _topic,
    b"s": lambda fields: ShardMeta(**fields),
    b"g": _segment,
    b"f": _file,
    b"d": lambda fields: RetiredObject(**fields),
    b"n": lambda fields: NodeMeta(**fields),
    b"o": lambda fields: GroupOffset(**fields),
    b"p": lambda fields: PendingOffset(**fields),
    b"m": lambda fields: GroupMeta(**fields),
    b"i": lambda fields: ProducerIds(**fields),
    b"x": _transaction,
    b"a": access_rows.rule,
    b"u": access_rows.credential,
    b"q": access_rows.quota,
    b"c": _config,
}
