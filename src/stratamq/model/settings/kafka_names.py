"""The configs of Apache Kafka 4.1 by name: what they are called here, and why some are missing.

A config of Kafka is one of these:

- a setting here of the same name (`SAME_NAMES`) or another (`KAFKA_NAMES`), which works, or is
  accepted without effect (`Setting.idle`);
- derived from other settings and only shown (`SHOWN`);
- refused, with the reason (`TOPIC_REFUSED`, `BROKER_REFUSED`, `GROUP_REFUSED`).

Errors about unknown names and docs/kafka-compatibility.md are made from these tables.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

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
"""Kafka's names of the node's settings, by ours. A setting that is not here has one name."""

SAME_NAMES = frozenset(
    [
        "allow.everyone.if.no.acl.found",
        "auto.create.topics.enable",
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "default.replication.factor",
        "delete.topic.enable",
        "follower.replication.throttled.rate",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.migration.policy",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.session.timeout.ms",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "leader.replication.throttled.rate",
        "node.id",
        "num.partitions",
        "offset.metadata.max.bytes",
        "offsets.retention.minutes",
        "producer.id.expiration.ms",
        "quota.window.num",
        "quota.window.size.seconds",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "sasl.enabled.mechanisms",
        "ssl.principal.mapping.rules",
        "super.users",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.max.timeout.ms",
        "transactional.id.expiration.ms",
    ]
)
"""Settings of a node that are called the same in Kafka."""

SHOWN = {
    "broker.id": "`node.id`",
    "listeners": "`host`, `kafka.port` and the settings of TLS and SASL",
    "advertised.listeners": "`kafka.advertised.host` and `kafka.advertised.port`",
}
"""What DescribeConfigs derives from settings. It cannot be set under this name."""


def _by_name(reasons: Mapping[str, str]) -> dict[str, str]:
    return {name: why for why, names in reasons.items() for name in names.split()}


TOPIC_REFUSED = _by_name(
    {
        "remote.storage.enable=false keeps segments from moving": "remote.log.copy.disable",
        "history stays readable where it is": "remote.log.delete.on.disable",
        "Kafka removed it in 4.0": "message.downconversion.enable message.format.version",
    }
)

GROUP_REFUSED = _by_name(
    {
        "share groups are not served": """
            share.auto.offset.reset share.heartbeat.interval.ms share.isolation.level
            share.record.lock.duration.ms share.session.timeout.ms""",
        "groups of Kafka Streams' own protocol are not served": """
            streams.heartbeat.interval.ms streams.num.standby.replicas
            streams.session.timeout.ms""",
    }
)

BROKER_REFUSED = _by_name(
    {
        "use data.dir, which names one folder": "log.dir log.dir.failure.timeout.ms",
        "use the name that ends in .ms": """
            log.retention.hours log.retention.minutes log.roll.hours log.roll.jitter.hours""",
        "there is one listener: see host, kafka.port and the settings of TLS and SASL": """
            early.start.listeners inter.broker.listener.name listener.security.protocol.map
            max.connections.per.ip.overrides security.inter.broker.protocol""",
        "connections are limited by kafka.connections.max and kafka.connections.per.host.max": """
            max.connection.creation.rate""",
        "the operating system sizes socket buffers; the backlog is fixed": """
            socket.listen.backlog.size socket.receive.buffer.bytes socket.send.buffer.bytes""",
        "nothing is replicated yet": """
            alter.log.dirs.replication.quota.window.num
            alter.log.dirs.replication.quota.window.size.seconds auto.leader.rebalance.enable
            broker.rack controlled.shutdown.enable controller.socket.timeout.ms
            leader.imbalance.check.interval.seconds num.replica.alter.log.dirs.threads
            num.replica.fetchers replica.fetch.backoff.ms replica.fetch.max.bytes
            replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms
            replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms
            replica.selector.class replica.socket.receive.buffer.bytes replica.socket.timeout.ms
            replication.quota.window.num replication.quota.window.size.seconds request.timeout.ms
            sasl.mechanism.inter.broker.protocol socket.connection.setup.timeout.max.ms
            socket.connection.setup.timeout.ms unclean.leader.election.interval.ms""",
        "there is no KRaft controller: the node's Meta Service keeps the metadata": """
            broker.heartbeat.interval.ms broker.session.timeout.ms controller.listener.names
            controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
            controller.quorum.append.linger.ms controller.quorum.bootstrap.servers
            controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
            controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
            controller.quorum.retry.backoff.ms controller.quorum.voters
            initial.broker.registration.timeout.ms metadata.log.dir
            metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
            metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
            metadata.max.retention.bytes metadata.max.retention.ms process.roles
            sasl.mechanism.controller.protocol server.max.startup.time.ms
            unstable.api.versions.enable unstable.feature.versions.enable""",
        "controller_mutation_rate is not enforced": """
            controller.quota.window.num controller.quota.window.size.seconds""",
        "groups and transactions are rows of the Meta Service, not topics": """
            add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
            group.coordinator.append.linger.ms group.coordinator.threads offsets.commit.timeout.ms
            offsets.load.buffer.size offsets.topic.compression.codec offsets.topic.num.partitions
            offsets.topic.replication.factor offsets.topic.segment.bytes
            transaction.state.log.load.buffer.size transaction.state.log.min.isr
            transaction.state.log.num.partitions transaction.state.log.replication.factor
            transaction.state.log.segment.bytes""",
        "the interval is fixed": """
            group.consumer.regex.refresh.interval.ms offsets.retention.check.interval.ms
            producer.id.expiration.check.interval.ms
            transaction.remove.expired.transaction.cleanup.interval.ms""",
        "see flush and checkpoint.interval.ms": """
            log.flush.offset.checkpoint.interval.ms log.flush.scheduler.interval.ms
            log.flush.start.offset.checkpoint.interval.ms log.initial.task.delay.ms""",
        "every transactional write is verified": "transaction.partition.verification.enable",
        "transactions of an outside coordinator are not served": """
            transaction.two.phase.commit.enable""",
        "group.max.size holds for both protocols": "group.consumer.max.size",
        "uniform and range are always offered": "group.consumer.assignors",
        "both protocols are always served": "group.coordinator.rebalance.protocols",
        "share groups are not served": """
            group.share.assignors group.share.delivery.count.limit group.share.enable
            group.share.heartbeat.interval.ms group.share.max.heartbeat.interval.ms
            group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms
            group.share.max.share.sessions group.share.max.size
            group.share.min.heartbeat.interval.ms group.share.min.record.lock.duration.ms
            group.share.min.session.timeout.ms group.share.partition.max.record.locks
            group.share.persister.class.name group.share.record.lock.duration.ms
            group.share.session.timeout.ms share.coordinator.append.linger.ms
            share.coordinator.cold.partition.snapshot.interval.ms
            share.coordinator.load.buffer.size
            share.coordinator.snapshot.update.records.per.snapshot
            share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
            share.coordinator.state.topic.num.partitions
            share.coordinator.state.topic.prune.interval.ms
            share.coordinator.state.topic.replication.factor
            share.coordinator.state.topic.segment.bytes share.coordinator.threads
            share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests""",
        "groups of Kafka Streams' own protocol are not served": """
            group.streams.heartbeat.interval.ms group.streams.max.heartbeat.interval.ms
            group.streams.max.session.timeout.ms group.streams.max.size
            group.streams.max.standby.replicas group.streams.min.heartbeat.interval.ms
            group.streams.min.session.timeout.ms group.streams.num.standby.replicas
            group.streams.session.timeout.ms""",
        "one event loop serves requests; io.workers and reader.threads read and write": """
            background.threads num.io.threads num.network.threads
            num.recovery.threads.per.data.dir""",
        "requests are limited by kafka.requests.per.connection.max": "queued.max.requests",
        "no limit of its own: kafka.request.elements.max": "max.request.partition.size.limit",
        "requests that wait leave when they are answered; no purge is needed": """
            delete.records.purgatory.purge.interval.requests
            fetch.purgatory.purge.interval.requests producer.purgatory.purge.interval.requests""",
        "compaction is part of housekeeping: see housekeeping.interval.ms, compaction.keys.max": """
            log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.enable
            log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
            log.cleaner.io.max.bytes.per.second log.cleaner.threads""",
        "certificates and keys are PEM files without a password: see kafka.tls.certificate": """
            ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key
            ssl.keystore.password ssl.keystore.type ssl.truststore.certificates
            ssl.truststore.password ssl.truststore.type""",
        "TLS 1.2 or newer, with the ciphers of the installed OpenSSL": """
            security.providers ssl.allow.dn.changes ssl.allow.san.changes ssl.cipher.suites
            ssl.enabled.protocols ssl.endpoint.identification.algorithm
            ssl.keymanager.algorithm ssl.protocol ssl.provider ssl.secure.random.implementation
            ssl.trustmanager.algorithm""",
        "it names a Java class": """
            alter.config.policy.class.name client.quota.callback.class config.providers
            create.topic.policy.class.name kafka.metrics.reporters metric.reporters
            principal.builder.class sasl.client.callback.handler.class
            sasl.login.callback.handler.class sasl.login.class
            sasl.server.callback.handler.class ssl.engine.factory.class""",
        "authorizer=acl turns access rules on": "authorizer.class.name",
        "users are stored by the node: `stratamq user add`": "sasl.jaas.config",
        "the size of a login message is fixed": "sasl.server.max.receive.size",
        "SASL GSSAPI (Kerberos) is not offered": """
            sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
            sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name
            sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor""",
        "SASL OAUTHBEARER is not offered": """
            sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
            sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
            sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
            sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
            sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
            sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
            sasl.oauthbearer.assertion.claim.jti.include
            sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
            sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
            sasl.oauthbearer.assertion.private.key.passphrase
            sasl.oauthbearer.assertion.template.file
            sasl.oauthbearer.client.credentials.client.id
            sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
            sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
            sasl.oauthbearer.jwks.endpoint.refresh.ms
            sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
            sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
            sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
            sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name
            sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url""",
        "delegation tokens are not offered": """
            delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
            delegation.token.max.lifetime.ms delegation.token.secret.key""",
        "metrics are served over HTTP: see console.port": """
            kafka.metrics.polling.interval.secs metrics.num.samples metrics.recording.level
            metrics.sample.window.ms""",
        "clients' own metrics are not collected": "telemetry.max.bytes",
        "history goes to store.url: see the settings that begin with store., tier. and cold.": """
            remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
            remote.log.index.file.cache.total.size.bytes
            remote.log.manager.copier.thread.pool.size
            remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
            remote.log.manager.copy.quota.window.size.seconds
            remote.log.manager.expiration.thread.pool.size
            remote.log.manager.fetch.max.bytes.per.second
            remote.log.manager.fetch.quota.window.num
            remote.log.manager.fetch.quota.window.size.seconds
            remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
            remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter
            remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
            remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
            remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
            remote.log.reader.max.pending.tasks remote.log.reader.threads
            remote.log.storage.manager.class.name remote.log.storage.manager.class.path
            remote.log.storage.manager.impl.prefix remote.log.storage.system.enable""",
    }
)

_OURS = {kafkas: ours for ours, kafkas in KAFKA_NAMES.items()}
_WHY_REFUSED = {**TOPIC_REFUSED, **GROUP_REFUSED, **BROKER_REFUSED}


def broker_name(setting: str) -> str:
    """What Kafka's tools call a setting of a node."""
    return KAFKA_NAMES.get(setting, setting)


def explain(name: str, known: Container[str]) -> str | None:
    """What a Kafka user should know about a name that is not one of the known ones."""
    if _OURS.get(name) in known:
        return f"{name!r} is called {_OURS[name]!r} here"
    if name in SHOWN:
        return f"{name!r} follows from {SHOWN[name].replace('`', '')}"
    if name in _WHY_REFUSED:
        return f"{name!r} of Apache Kafka is not supported: {_WHY_REFUSED[name]}"
    return None
