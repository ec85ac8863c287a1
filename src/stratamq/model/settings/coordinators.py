"""Settings of the group and transaction coordinators. Names that Kafka has are Kafka's."""

from __future__ import annotations

from stratamq.model.settings.setting import Setting

MIB = 1 << 20
INT32_MAX = (1 << 31) - 1

CONSUMER_GROUPS: tuple[Setting, ...] = (
    Setting(
        name="group.min.session.timeout.ms",
        default=6_000,
        minimum=1,
        dynamic=True,
        doc="Shortest session a classic member may ask for. Below: INVALID_SESSION_TIMEOUT.",
    ),
    Setting(
        name="group.max.session.timeout.ms",
        default=1_800_000,
        minimum=1,
        dynamic=True,
        doc="Longest session a classic member may ask for. Above: INVALID_SESSION_TIMEOUT.",
    ),
    Setting(
        name="group.initial.rebalance.delay.ms",
        default=3_000,
        minimum=0,
        dynamic=True,
        doc="How long an empty classic group waits for more members before it assigns.",
    ),
    Setting(
        name="group.max.size",
        default=10_000,
        minimum=1,
        dynamic=True,
        doc="Members a group may have. When it is reached, one more gets GROUP_MAX_SIZE_REACHED.",
    ),
    Setting(
        name="group.member.bytes.max",
        default=MIB,
        minimum=1024,
        dynamic=True,
        doc="What one member says about itself: ids, protocols with their metadata, topic names, "
        "and 100 bytes for each. Above: JoinGroup gets MESSAGE_TOO_LARGE, ConsumerGroupHeartbeat "
        "INVALID_REQUEST.",
    ),
    Setting(
        name="group.assignment.bytes.max",
        default=MIB,
        minimum=1024,
        dynamic=True,
        doc="What the leader of a classic group assigns to one member. Above: SyncGroup gets "
        "MESSAGE_TOO_LARGE and the group rebalances.",
    ),
    Setting(
        name="group.bytes.max",
        default=2 * MIB,
        minimum=4096,
        dynamic=True,
        doc="What all members of a group say and are assigned. When it is reached, members that "
        "join, or rejoin with more than before, get GROUP_MAX_SIZE_REACHED.",
    ),
    Setting(
        name="groups.bytes.max",
        default=32 * MIB,
        minimum=MIB,
        dynamic=True,
        doc="The same over all groups, and 2500 bytes for each group with members. When it is "
        "reached, who joins gets COORDINATOR_NOT_AVAILABLE: clients retry until members have left.",
    ),
    Setting(
        name="group.consumer.session.timeout.ms",
        default=45_000,
        minimum=1,
        dynamic=True,
        doc="Silence after which a member of the new protocol is taken for dead.",
    ),
    Setting(
        name="group.consumer.heartbeat.interval.ms",
        default=5_000,
        minimum=1,
        dynamic=True,
        doc="How often members of the new protocol are asked to send a heartbeat.",
    ),
    Setting(
        name="group.consumer.min.session.timeout.ms",
        default=45_000,
        minimum=1,
        dynamic=True,
        doc="Least that a group's own `consumer.session.timeout.ms` may be; less is refused.",
    ),
    Setting(
        name="group.consumer.max.session.timeout.ms",
        default=60_000,
        minimum=1,
        dynamic=True,
        doc="Most that a group's own `consumer.session.timeout.ms` may be; more is refused.",
    ),
    Setting(
        name="group.consumer.min.heartbeat.interval.ms",
        default=5_000,
        minimum=1,
        dynamic=True,
        doc="Least that a group's own `consumer.heartbeat.interval.ms` may be; less is refused.",
    ),
    Setting(
        name="group.consumer.max.heartbeat.interval.ms",
        default=15_000,
        minimum=1,
        dynamic=True,
        doc="Most that a group's own `consumer.heartbeat.interval.ms` may be; more is refused.",
    ),
    Setting(
        name="group.consumer.migration.policy",
        default="bidirectional",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
        dynamic=True,
        doc="Whether a group with members may change its protocol. upgrade: a classic group of "
        "consumers becomes a consumer group when the first member of the new protocol joins. "
        "downgrade: it becomes a classic group when the last one is gone.",
    ),
    Setting(
        name="meta.offset.bytes.max",
        default=128 * MIB,
        minimum=MIB,
        doc="Committed offsets of all groups: 400 bytes and the metadata of each. When it is "
        "reached, commits for further partitions get COORDINATOR_NOT_AVAILABLE.",
    ),
    Setting(
        name="offsets.retention.minutes",
        default=10_080,
        minimum=1,
        dynamic=True,
        doc="Offsets of a group that has been empty this long are forgotten.",
    ),
    Setting(
        name="offset.metadata.max.bytes",
        default=4096,
        minimum=0,
        maximum=4096,
        dynamic=True,
        doc="Text stored with a committed offset. Above: OFFSET_METADATA_TOO_LARGE.",
    ),
)

TRANSACTIONS: tuple[Setting, ...] = (
    Setting(
        name="transaction.max.timeout.ms",
        default=900_000,
        minimum=1,
        maximum=INT32_MAX,
        dynamic=True,
        doc="Longest transaction a producer may ask for. Above: INVALID_TRANSACTION_TIMEOUT.",
    ),
    Setting(
        name="transactional.id.expiration.ms",
        default=604_800_000,
        minimum=1,
        maximum=INT32_MAX,
        dynamic=True,
        doc="A transactional id that was not used for this long is forgotten.",
    ),
    Setting(
        name="transaction.abort.timed.out.transaction.cleanup.interval.ms",
        default=10_000,
        minimum=10,
        doc="How often timed-out transactions are searched for; those that have not ended a "
        "second later are aborted.",
    ),
    Setting(
        name="meta.transactions.max",
        default=100_000,
        minimum=1,
        doc="Transactional ids there may be. At the limit, a new one has to wait until another "
        "expires.",
    ),
    Setting(
        name="meta.transaction.partitions.max",
        default=1_000_000,
        minimum=1,
        doc="Partitions of all open transactions, one counted for each transaction that has it. "
        "When it is reached, partitions are not added: COORDINATOR_NOT_AVAILABLE, and clients "
        "retry.",
    ),
)
