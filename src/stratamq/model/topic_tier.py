"""Topic configs about history: what stays on local disks, what goes to object storage, and which
table it becomes."""

from __future__ import annotations

from stratamq.model.settings import Setting

LIKE_RETENTION = -2
"""As Kafka says it: local retention is what retention is, so nothing goes elsewhere."""

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
            "no table, and look-ups by key or tag scan. both: the two beside each other."
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
