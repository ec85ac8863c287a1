"""Settings of topics, named as Kafka names them where Kafka has a name.

Scripts, Kafka Connect and Kafka Streams also name configs that mean nothing here (`ACCEPTED`): they
are checked, stored and returned, and each says why it has no effect.
"""

from __future__ import annotations

from enum import StrEnum

from stratamq.model.settings.setting import Setting

KEEP_FOREVER = -1
LIKE_RETENTION = -2
"""As in Kafka: local retention is the same as retention, so no segment is moved."""

MIB = 1 << 20
HOUR_MS = 3_600_000
LONG_MAX = (1 << 63) - 1


class StorageType(StrEnum):
    """Which engine stores a topic."""

    MEMORY = "EngineMemory"
    ROCKSDB = "EngineRocksDB"
    SEGMENT = "EngineSegment"


class Flush(StrEnum):
    """What an acknowledgement promises about the disk."""

    SYNC = "sync"
    INTERVAL = "interval"
    OS = "os"


STORAGE: tuple[Setting, ...] = (
    Setting(
        name="storage.type",
        default=StorageType.SEGMENT.value,
        choices=tuple(kind.value for kind in StorageType),
        fixed=True,
        doc="The engine that stores the topic. Fixed at creation.",
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
        "Empty: neither, everything stays.",
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
        doc="Codec of what is stored. producer: batches are stored as they came.",
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
)

TIER_SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="remote.storage.enable",
        default=True,
        doc=(
            "true: `local.retention.ms` and `local.retention.bytes` decide which segments move to "
            "the object store. false: none does; those that have moved are still read from there."
        ),
    ),
    Setting(
        name="local.retention.ms",
        default=LIKE_RETENTION,
        minimum=LIKE_RETENTION,
        doc=(
            "Sealed segments whose newest record is older than this move to the object store. "
            "-2: as retention.ms, so none does by age. -1: none does."
        ),
    ),
    Setting(
        name="local.retention.bytes",
        default=LIKE_RETENTION,
        minimum=LIKE_RETENTION,
        doc=(
            "Oldest sealed segments move to the object store while the shard is larger than this "
            "on local disks. -2: as retention.bytes. -1: none does."
        ),
    ),
    Setting(
        name="tier.format",
        default="parquet",
        choices=("parquet", "log", "both"),
        doc=(
            "What a moved segment becomes. parquet: a table file. log: the segment's own bytes; "
            "no table, and look-ups by key or tag scan. both: the two of them."
        ),
    ),
    Setting(
        name="lake.value.format",
        default="none",
        choices=("none", "json", "avro"),
        doc="What values are, for typed columns of the table. Needs lake.value.schema.",
    ),
    Setting(
        name="lake.value.schema",
        default="",
        doc=(
            "The schema of the values, as Avro writes it (JSON); for json values too. It may only "
            "grow by fields that may be null."
        ),
    ),
    Setting(
        name="lake.flush.interval.ms",
        default=0,
        minimum=0,
        doc="How often new records become visible in the table, before their segment is full. "
        "0: when it moves, or when `stratamq lake flush` says so.",
    ),
    Setting(
        name="lake.iceberg",
        default=True,
        doc="Whether the topic's files are an Iceberg table too, where the node has a catalog.",
    ),
)

ACCEPTED: tuple[Setting, ...] = (
    Setting(
        name="flush.messages",
        default=LONG_MAX,
        minimum=1,
        maximum=LONG_MAX,
        idle=True,
        doc="Accepted for Kafka's tools, without effect: `flush` says when data is synced.",
    ),
    Setting(
        name="index.interval.bytes",
        default=4096,
        minimum=0,
        idle=True,
        doc="Accepted for Kafka's tools, without effect: index points come by records.",
    ),
    Setting(
        name="segment.index.bytes",
        default=10 << 20,
        minimum=4,
        idle=True,
        doc="Accepted for Kafka's tools, without effect: indexes are as large as they need.",
    ),
    Setting(
        name="segment.jitter.ms",
        default=0,
        minimum=0,
        idle=True,
        doc="Accepted for Kafka's tools, without effect: a roll costs too little to spread.",
    ),
    Setting(
        name="preallocate",
        default=False,
        idle=True,
        doc="Accepted for Kafka's tools, without effect: files grow as they are written.",
    ),
    Setting(
        name="file.delete.delay.ms",
        default=60_000,
        minimum=0,
        idle=True,
        doc="Accepted for Kafka's tools, without effect: readers keep the files they are in.",
    ),
    Setting(
        name="min.cleanable.dirty.ratio",
        default="0.5",
        idle=True,
        doc="Accepted for Kafka's tools, without effect: compaction comes by time.",
    ),
    Setting(
        name="max.compaction.lag.ms",
        default=LONG_MAX,
        minimum=1,
        maximum=LONG_MAX,
        idle=True,
        doc="Accepted for Kafka's tools, without effect: every round compacts what it may.",
    ),
    Setting(
        name="compression.gzip.level",
        default=-1,
        idle=True,
        doc="Accepted for Kafka's tools, without effect: the codec's own default is used.",
    ),
    Setting(
        name="compression.lz4.level",
        default=9,
        idle=True,
        doc="Accepted for Kafka's tools, without effect: the codec's own default is used.",
    ),
    Setting(
        name="compression.zstd.level",
        default=3,
        idle=True,
        doc="Accepted for Kafka's tools, without effect: the codec's own default is used.",
    ),
    Setting(
        name="unclean.leader.election.enable",
        default=False,
        idle=True,
        doc="Accepted for Kafka's tools, without effect: a leader is never chosen that way.",
    ),
    Setting(
        name="leader.replication.throttled.replicas",
        default="",
        idle=True,
        doc="Accepted for Kafka's tools, without effect: nothing is replicated yet.",
    ),
    Setting(
        name="follower.replication.throttled.replicas",
        default="",
        idle=True,
        doc="Accepted for Kafka's tools, without effect: nothing is replicated yet.",
    ),
)

TOPIC_SETTINGS: dict[str, Setting] = {
    setting.name: setting for setting in (*STORAGE, *TIER_SETTINGS, *ACCEPTED)
}

FIXED_SETTINGS = tuple(name for name, setting in TOPIC_SETTINGS.items() if setting.fixed)
"""They decide where a topic's bytes are, or what an index knows of the records before."""
