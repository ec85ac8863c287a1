"""What classic consumers tell each other inside JoinGroup and SyncGroup."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import BYTES, INT32, STRING, array, data, struct, wire


@struct
class TopicPartition:
    topic: str = wire(STRING)
    partitions: Sequence[int] = wire(array(INT32))


@data(versions="0-3")
class ConsumerProtocolSubscription:
    """What a member wants, and what it has. Read it with `decode_embedded`."""

    topics: Sequence[str] = wire(array(STRING))
    user_data: bytes | None = wire(BYTES, nullable=True, default=None)
    owned_partitions: Sequence[TopicPartition] = wire(
        array(TopicPartition), versions="1+", default=(), ignorable=True
    )
    generation_id: int = wire(INT32, versions="2+", default=-1, ignorable=True)
    rack_id: str | None = wire(STRING, versions="3+", nullable=True, default=None, ignorable=True)


@data(versions="0-3")
class ConsumerProtocolAssignment:
    """What a member gets. Read it with `decode_embedded`."""

    assigned_partitions: Sequence[TopicPartition] = wire(array(TopicPartition))
    user_data: bytes | None = wire(BYTES, nullable=True, default=None)
