"""Making a backup of a node, which Kafka has no message for. Like those of the lake, it is ours
alone."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    array,
    request,
    response,
    wire,
)


@request(key=32004, versions="0", flexible="0+")
class BackUpRequest:
    """Begin a backup of this name, or wait for the one that was begun. After `timeout_ms` the
    answer says how far it is, and it goes on."""

    name: str = wire(STRING)
    begins: bool = wire(BOOL)
    timeout_ms: int = wire(INT32, default=1000)


@response(key=32004, versions="0", flexible="0+")
class BackUpResponse:
    """`path` is where the node writes it. Until it `is_done`, `step` and `done_bytes` say how far
    it is. `unavailable` are shards that could not be opened, `without_records` topics whose records
    are not in it; `objects` stay in the object store at `store`."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    is_done: bool = wire(BOOL, default=False)
    path: str = wire(STRING, default="")
    step: str = wire(STRING, default="")
    done_bytes: int = wire(INT64, default=0)
    taken_ms: int = wire(INT64, default=-1)
    topics: int = wire(INT32, default=0)
    shards: int = wire(INT32, default=0)
    files: int = wire(INT32, default=0)
    size_bytes: int = wire(INT64, default=0)
    unavailable: Sequence[str] = wire(array(STRING), default=())
    without_records: Sequence[str] = wire(array(STRING), default=())
    store: str = wire(STRING, default="")
    objects: int = wire(INT64, default=0)
