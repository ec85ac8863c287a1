"""Checking what only a node's own machine shows, which Kafka has no message for."""

from __future__ import annotations

from stratamq.wire.kafka.protocol.schema import INT16, INT32, STRING, request, response, wire


@request(key=32005, versions="0", flexible="0+")
class CheckNodeRequest:
    """One check by its name, on the node that is asked: see `stratamq.node.machine_checks`."""

    name: str = wire(STRING)


@response(key=32005, versions="0", flexible="0+")
class CheckNodeResponse:
    """`result` is ok, warn or fail, and `text` what was found and what to do about it."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    result: str = wire(STRING, default="")
    text: str = wire(STRING, default="")
