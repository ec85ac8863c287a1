"""What the log says of requests: which one a line belongs to, and which took long."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import ref

from stratamq.net.log_limit import LogLimit
from stratamq.server.kafka.ordering import RequestSlot
from stratamq.wire.kafka.protocol import APIS

if TYPE_CHECKING:
    from stratamq.server.kafka.spans import RequestSpans

logger = logging.getLogger(__name__)

WAIT_ON_PURPOSE = frozenset(
    api.key
    for api in APIS.values()
    if api.name
    in (
        *("JoinGroup", "SyncGroup"),  # for other members
        "FlushLake",  # until tables are written, which may take minutes
        "BackUp",  # as long as its client wants to
        "SaslAuthenticate",  # a wrong password is answered late
    )
)
"""APIs whose requests are never called slow: how long they take is not for the node to decide."""


class Serving:
    """`slot` is the request whose code the event loop runs just now, outside of any task."""

    def __init__(self) -> None:
        self.slot: RequestSlot | None = None
        self.thread = 0


SERVING = Serving()
"""Two plain stores for each request: a context variable would cost Produce and Fetch more."""

SERVED: ContextVar[ref[RequestSlot]] = ContextVar("SERVED")
"""The request of a task, and of tasks and threads that it starts. They may live for longer, and
must not hold the request's memory."""


def request_fields() -> dict[str, object]:
    """What a line that is logged now says of the request that is being served, if one is."""
    slot = SERVING.slot if threading.get_ident() == SERVING.thread else None
    if slot is None:
        found = SERVED.get(None)
        slot = None if found is None else found()
    return {} if slot is None or slot.answer is not None else about(slot)


def about(slot: RequestSlot) -> dict[str, object]:
    """`request` is unique within a run of the node, unless its client uses a correlation id
    twice."""
    header, caller = slot.header, slot.caller
    return {
        "request": f"{caller.connection}-{header.correlation_id}",
        "api": APIS[header.api_key].name,
        "version": caller.version,
        "client": caller.client_id,
        "principal": caller.principal,
        "host": caller.host,
        "connection": caller.connection,
    }


class RequestWatch:
    """Looks at each request that took at least `least_s`, from its first byte to its answer: at
    those that could be slow, or at all where they become `spans`."""

    def __init__(self, spans: RequestSpans | None = None) -> None:
        self._spans = spans
        self.limit(0)
        self.slow: Counter[str] = Counter()
        """Slow requests since the start, by API."""
        self._lines = LogLimit(self._report)

    def limit(self, slow_ms: int) -> None:
        """0: no request is slow."""
        self._slow_s = slow_ms / 1000 if slow_ms else float("inf")
        self.least_s = self._slow_s if self._spans is None else 0.0

    def look(self, slot: RequestSlot, took_s: float) -> None:
        """Time in the queue is not the request's own work, nor is what a Fetch may wait for."""
        if not slot.began_at:
            return
        if self._spans is not None:
            self._spans.add(slot, took_s)
        if slot.api_key in WAIT_ON_PURPOSE:
            return
        queue_s = slot.began_at - slot.read_at
        work_s = took_s - queue_s
        if work_s - max(slot.wait_s, 0) < self._slow_s:
            return
        self.slow[APIS[slot.api_key].name] += 1
        if self._lines.admits():
            times = {"queue_ms": round(queue_s * 1000), "work_ms": round(work_s * 1000)}
            logger.warning("slow request", extra={"fields": {**about(slot), **times}})

    def close(self) -> None:
        self._lines.close()

    def _report(self, _: str, left_out: int) -> None:
        fields = {"left_out": left_out}
        logger.warning("more slow requests were not logged", extra={"fields": fields})
