"""What several messages share."""

from __future__ import annotations

from stratamq.wire.kafka.protocol.schema import INT32, STRING, struct, wire

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1

NOT_ASKED = -(1 << 31)
"""In a bit field of authorised operations: nobody asked for them."""


@struct
class LeaderIdAndEpoch:
    """Who leads now: spares the client a Metadata request."""

    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)


@struct
class NodeEndpoint:
    """Where a leader named in the same response can be reached."""

    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable=True, default=None)
