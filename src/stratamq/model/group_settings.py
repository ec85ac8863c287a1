"""The settings of a node that concern consumer groups; names that Kafka has are Kafka's."""

from __future__ import annotations

from stratamq.model.settings import Setting

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
        doc="Members a group may have. Met: one more gets GROUP_MAX_SIZE_REACHED.",
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
        doc="How often members of the new protocol are told to report.",
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
        doc="Text beside a committed offset. Above: OFFSET_METADATA_TOO_LARGE.",
    ),
)
