"""What our objects are called, made and parsed in one place.

    {topic}.{topic_id}/data/partition={p}/{base:020d}-{end:020d}-{token}.parquet
    {topic}.{topic_id}/log/partition={p}/{base:020d}-{token}.log | .index | .timeindex
    {topic}.{topic_id}/manifest.json
    {topic}.{topic_id}/metadata/...        Iceberg's

The id makes a folder unique; the topic's name in front of it is for people, and may be cut short.
A token is never used twice, so no upload meets another's object, and it begins with its owner's
mark: clusters that share a store recognise their own objects by it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from stratamq.model.shard import shard_name
from stratamq.model.types import Offset, ShardName, TopicId

NAME_CHARS_MAX = 120
"""A topic's name may have 249, and a part of a key 200 with the id after it."""

OWNER_CHARS = 8

_FOLDER = re.compile(r"(?P<name>[A-Za-z0-9_-][A-Za-z0-9._-]*)\.(?P<id>[0-9a-f]{32})")
_TOKEN = rf"(?P<owner>[0-9a-f]{{{OWNER_CHARS}}})(?P<random>[0-9a-f]{{16}})"
_FILE = re.compile(
    r"(?P<folder>[^/]+)/"
    r"(?:data/partition=(?P<data>0|[1-9][0-9]{0,9})/(?P<base>[0-9]{20})-(?P<end>[0-9]{20})"
    rf"-{_TOKEN}\.parquet"
    r"|log/partition=(?P<log>0|[1-9][0-9]{0,9})/(?P<first>[0-9]{20})"
    rf"-{_TOKEN.replace('owner', 'log_owner').replace('random', 'log_random')}"
    r"\.(?P<kind>log|index|timeindex))"
)


class ObjectKind(StrEnum):
    PARQUET = "parquet"
    LOG = "log"
    INDEX = "index"
    TIMEINDEX = "timeindex"


class FileKey(NamedTuple):
    """What the key of a shard's object says."""

    shard: ShardName
    base_offset: Offset
    kind: ObjectKind
    owner: str


@dataclass(frozen=True, slots=True)
class LogKeys:
    """A raw segment and its sidecars."""

    log: str
    index: str
    timeindex: str


def owner_mark(cluster_id: str) -> str:
    """The mark of everything that a cluster stores."""
    return hashlib.sha256(cluster_id.encode()).hexdigest()[:OWNER_CHARS]


def new_token(owner: str) -> str:
    assert len(owner) == OWNER_CHARS, "made by owner_mark"
    return owner + secrets.token_hex(8)


def topic_folder(name: str, topic_id: TopicId) -> str:
    """No part of a key begins with a dot, and a topic's name may."""
    short = name[:NAME_CHARS_MAX]
    return f"{'-' + short[1:] if short.startswith('.') else short}.{topic_id}"


def topic_id_of(key: str) -> TopicId | None:
    """The topic in whose folder an object is; None for what is not ours."""
    found = _FOLDER.fullmatch(key.partition("/")[0])
    return TopicId(found["id"]) if found else None


def data_key(folder: str, partition: int, base: Offset, end: Offset, token: str) -> str:
    return f"{folder}/data/partition={partition}/{base:020d}-{end:020d}-{token}.parquet"


def log_keys(folder: str, partition: int, base: Offset, token: str) -> LogKeys:
    stem = f"{folder}/log/partition={partition}/{base:020d}-{token}"
    return LogKeys(f"{stem}.log", f"{stem}.index", f"{stem}.timeindex")


def manifest_key(folder: str) -> str:
    return f"{folder}/manifest.json"


def metadata_prefix(folder: str) -> str:
    return f"{folder}/metadata/"


def parse(key: str) -> FileKey | None:
    """What `data_key` or `log_keys` made; None for any other key, which is none of our business."""
    found = _FILE.fullmatch(key)
    topic_id = topic_id_of(key)
    if found is None or topic_id is None:
        return None
    if found["data"] is not None:
        partition, base, kind, owner = found["data"], found["base"], "parquet", found["owner"]
    else:
        partition, base, kind = found["log"], found["first"], found["kind"]
        owner = found["log_owner"]
    return FileKey(shard_name(topic_id, int(partition)), Offset(int(base)), ObjectKind(kind), owner)
