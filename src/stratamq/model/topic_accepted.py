"""Topic configs of Kafka that tools set and that have nothing to do here.

Scripts, Kafka Connect and Kafka Streams name them when they create topics. They are checked, kept
and told again, and nothing else: each says why.
"""

from __future__ import annotations

from stratamq.model.settings import Setting

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

ACCEPTED: tuple[Setting, ...] = (
    Setting(
        name="flush.messages",
        default=LONG_MAX,
        minimum=1,
        maximum=LONG_MAX,
        doc="Accepted for Kafka's tools, without effect: `flush` says when data is synced.",
    ),
    Setting(
        name="index.interval.bytes",
        default=4096,
        minimum=0,
        doc="Accepted for Kafka's tools, without effect: index points come by records.",
    ),
    Setting(
        name="segment.index.bytes",
        default=10 << 20,
        minimum=4,
        doc="Accepted for Kafka's tools, without effect: indexes are as large as they need.",
    ),
    Setting(
        name="segment.jitter.ms",
        default=0,
        minimum=0,
        doc="Accepted for Kafka's tools, without effect: a roll costs too little to spread.",
    ),
    Setting(
        name="preallocate",
        default=False,
        doc="Accepted for Kafka's tools, without effect: files grow as they are written.",
    ),
    Setting(
        name="file.delete.delay.ms",
        default=60_000,
        minimum=0,
        doc="Accepted for Kafka's tools, without effect: readers keep the files they are in.",
    ),
    Setting(
        name="min.cleanable.dirty.ratio",
        default="0.5",
        doc="Accepted for Kafka's tools, without effect: compaction comes by time.",
    ),
    Setting(
        name="max.compaction.lag.ms",
        default=LONG_MAX,
        minimum=1,
        maximum=LONG_MAX,
        doc="Accepted for Kafka's tools, without effect: every round compacts what it may.",
    ),
    Setting(
        name="compression.gzip.level",
        default=-1,
        doc="Accepted for Kafka's tools, without effect: the codec's own default is used.",
    ),
    Setting(
        name="compression.lz4.level",
        default=9,
        doc="Accepted for Kafka's tools, without effect: the codec's own default is used.",
    ),
    Setting(
        name="compression.zstd.level",
        default=3,
        doc="Accepted for Kafka's tools, without effect: the codec's own default is used.",
    ),
    Setting(
        name="unclean.leader.election.enable",
        default=False,
        doc="Accepted for Kafka's tools, without effect: a leader is never chosen that way.",
    ),
    Setting(
        name="leader.replication.throttled.replicas",
        default="",
        doc="Accepted for Kafka's tools, without effect.",
    ),
    Setting(
        name="follower.replication.throttled.replicas",
        default="",
        doc="Accepted for Kafka's tools, without effect.",
    ),
)
