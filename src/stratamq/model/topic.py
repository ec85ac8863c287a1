"""Topics and their configs, named as Kafka names them where Kafka has a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import cast

from stratamq.model.dataclass import dataclass
from stratamq.model.settings import Setting, Value, parse_all
from stratamq.model.topic_accepted import ACCEPTED
from stratamq.model.topic_tier import TIER_SETTINGS
from stratamq.model.types import TopicId

KEEP_FOREVER = -1
MIB = 1 << 20
HOUR_MS = 3_600_000
LONG_MAX = (1 << 63) - 1


class StorageType(StrEnum):
    """Which engine keeps a topic."""

    MEMORY = "EngineMemory"
    ROCKSDB = "EngineRocksDB"
    SEGMENT = "EngineSegment"


class Flush(StrEnum):
    """What an acknowledgement promises about the disk."""

    SYNC = "sync"
    INTERVAL = "interval"
    OS = "os"


TOPIC_SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            name="storage.type",
            default=StorageType.SEGMENT.value,
            choices=tuple(kind.value for kind in StorageType),
            fixed=True,
            doc="The engine that keeps the topic. Fixed at creation.",
        ),
        Setting(
            name="segment.model",
            default="partition",
            choices=("partition",),
            fixed=True,
            doc="File model of EngineSegment: a folder per shard. Fixed at creation.",
        ),
        Setting(
            name="segment.bytes",
            default=1024 * MIB,
            minimum=1024,
            maximum=(1 << 31) - 1,
            doc="A segment is sealed before it grows past this. File positions have 32 bits.",
        ),
        Setting(
            name="segment.ms",
            default=168 * HOUR_MS,
            minimum=1,
            doc=(
                "A segment is sealed before a batch that is this much younger than its first; one "
                "that begins without a timestamp, after this time."
            ),
        ),
        Setting(
            name="retention.ms",
            default=168 * HOUR_MS,
            minimum=KEEP_FOREVER,
            doc=(
                "Segments whose newest record is older than this are deleted; -1 keeps them. A "
                "segment without timestamps is as old as its last write."
            ),
        ),
        Setting(
            name="retention.bytes",
            default=KEEP_FOREVER,
            minimum=KEEP_FOREVER,
            doc="Oldest segments are deleted while the shard is larger than this; -1 keeps them.",
        ),
        Setting(
            name="cleanup.policy",
            default="delete",
            choices=("compact", "delete"),
            many=True,
            doc="delete: by retention. compact: keep the newest record of each key. Or both. "
            "Empty: neither, everything is kept.",
        ),
        Setting(
            name="delete.retention.ms",
            default=24 * HOUR_MS,
            minimum=0,
            doc="How long compaction keeps a record with a null value (a deletion mark).",
        ),
        Setting(
            name="min.compaction.lag.ms",
            default=0,
            minimum=0,
            doc="Compaction leaves segments alone that have a record younger than this.",
        ),
        Setting(
            name="max.message.bytes",
            default=MIB + 12,
            minimum=0,
            maximum=(1 << 31) - 1,
            doc="Largest batch accepted, as it arrives (compressed).",
        ),
        Setting(
            name="message.timestamp.type",
            default="CreateTime",
            choices=("CreateTime", "LogAppendTime"),
            doc="Whose clock stamps the records: the producer's or the node's.",
        ),
        Setting(
            name="message.timestamp.before.max.ms",
            default=LONG_MAX,
            minimum=0,
            maximum=LONG_MAX,
            doc="A producer's batch with a record older than this is refused.",
        ),
        Setting(
            name="message.timestamp.after.max.ms",
            default=HOUR_MS,
            minimum=0,
            maximum=LONG_MAX,
            doc="A producer's batch with a record this far in the future is refused.",
        ),
        Setting(
            name="compression.type",
            default="producer",
            choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
            doc="Codec of what is stored. producer: batches are kept as they came.",
        ),
        Setting(
            name="min.insync.replicas",
            default=1,
            minimum=1,
            doc="With acks=all, a write fails when fewer replicas are in sync.",
        ),
        Setting(
            name="commit.policy",
            default="all",
            choices=("all", "quorum"),
            doc="What Kafka's acks=-1 waits for.",
        ),
        Setting(
            name="flush",
            default=Flush.SYNC.value,
            choices=tuple(kind.value for kind in Flush),
            doc=(
                "sync: acknowledged means fsynced. interval: fsynced every flush.ms. "
                "os: when the kernel likes."
            ),
        ),
        Setting(
            name="flush.ms",
            default=1000,
            minimum=1,
            doc="The interval of flush=interval: at most this much is lost in a power cut.",
        ),
        Setting(
            name="index.key",
            default=True,
            fixed=True,
            doc="Keep the key index; without it read_by_key scans. Fixed at creation.",
        ),
        Setting(
            name="index.tag",
            default=True,
            fixed=True,
            doc="Keep the tag index; without it read_by_tag scans. Fixed at creation.",
        ),
        Setting(
            name="record.ttl.ms",
            default=-1,
            minimum=-1,
            doc=(
                "Records older than this are no longer returned. -1: no expiry. "
                "0: only records with a `ttl-ms` header expire. The header, where present, wins."
            ),
        ),
        Setting(
            name="memory.persist",
            default=False,
            fixed=True,
            doc="EngineMemory: write sealed segments to disk in the background, and the rest at a"
            " clean stop. A crash loses what is in no sealed segment, and its offsets are given out"
            " again. Fixed at creation.",
        ),
        *TIER_SETTINGS,
        *ACCEPTED,
    )
}

FIXED_SETTINGS = tuple(name for name, setting in TOPIC_SETTINGS.items() if setting.fixed)
"""They decide where a topic's bytes are, or what an index knows of the records before."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What a topic was configured with. `given` is what the user said, the rest are defaults."""

    given: Mapping[str, Value] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, given: Mapping[str, object] | None = None) -> TopicConfig:
        """Parse and check; InvalidConfig names the setting and what is wrong with it."""
        given = given or {}
        values = parse_all(TOPIC_SETTINGS, given)
        return cls({name: values[name] for name in given}, values)

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def number(self, name: str) -> int:
        return cast(int, self.values[name])

    def flag(self, name: str) -> bool:
        return cast(bool, self.values[name])

    @property
    def storage_type(self) -> StorageType:
        return StorageType(str(self.values["storage.type"]))

    @property
    def flush(self) -> Flush:
        return Flush(str(self.values["flush"]))

    @property
    def compacts(self) -> bool:
        return "compact" in str(self.values["cleanup.policy"])

    @property
    def deletes(self) -> bool:
        return "delete" in str(self.values["cleanup.policy"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as the Meta Service knows it."""

    topic_id: TopicId
    name: str
    partitions: int
    replicas: int = 1
    config: TopicConfig = field(default_factory=TopicConfig.of)
