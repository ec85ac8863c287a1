"""What Kafka calls the settings of a node. Those that it has no name for keep ours."""

from __future__ import annotations

KAFKA_NAMES = {
    "data.dir": "log.dirs",
    "kafka.connections.max": "max.connections",
    "kafka.connections.per.host.max": "max.connections.per.ip",
    "kafka.idle.ms.max": "connections.max.idle.ms",
    "kafka.frame.bytes.max": "socket.request.max.bytes",
    "kafka.request.bytes.max": "queued.max.request.bytes",
    "kafka.fetch.bytes.max": "fetch.max.bytes",
    "kafka.fetch.sessions.max": "max.incremental.fetch.session.cache.slots",
    "kafka.tls.certificate": "ssl.keystore.location",
    "kafka.tls.client.authorities": "ssl.truststore.location",
    "kafka.tls.client.auth": "ssl.client.auth",
    "housekeeping.interval.ms": "log.retention.check.interval.ms",
    "topic.segment.bytes": "log.segment.bytes",
    "topic.segment.ms": "log.roll.ms",
    "topic.retention.ms": "log.retention.ms",
    "topic.retention.bytes": "log.retention.bytes",
    "topic.cleanup.policy": "log.cleanup.policy",
    "topic.delete.retention.ms": "log.cleaner.delete.retention.ms",
    "topic.max.message.bytes": "message.max.bytes",
    "topic.message.timestamp.type": "log.message.timestamp.type",
    "topic.message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "topic.message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "topic.compression.type": "compression.type",
    "topic.min.insync.replicas": "min.insync.replicas",
    "topic.flush.ms": "log.flush.interval.ms",
    "topic.flush.messages": "log.flush.interval.messages",
    "topic.index.interval.bytes": "log.index.interval.bytes",
    "topic.segment.index.bytes": "log.index.size.max.bytes",
    "topic.segment.jitter.ms": "log.roll.jitter.ms",
    "topic.preallocate": "log.preallocate",
    "topic.file.delete.delay.ms": "log.segment.delete.delay.ms",
    "topic.min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "topic.min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "topic.max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "topic.compression.gzip.level": "compression.gzip.level",
    "topic.compression.lz4.level": "compression.lz4.level",
    "topic.compression.zstd.level": "compression.zstd.level",
    "topic.unclean.leader.election.enable": "unclean.leader.election.enable",
    "topic.local.retention.ms": "log.local.retention.ms",
    "topic.local.retention.bytes": "log.local.retention.bytes",
}


def broker_name(setting: str) -> str:
    return KAFKA_NAMES.get(setting, setting)
