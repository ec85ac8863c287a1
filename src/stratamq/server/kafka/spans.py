"""Requests as spans of OpenTelemetry, for collectors that speak OTLP over HTTP.

Off means that none of this is imported. A span is made when its request has its answer, for one
request in so many; a thread of the SDK sends them in batches. While the collector does not answer,
the SDK drops what its queue has no space for. Records are not touched: a `traceparent` in their
headers is the business of producers and consumers.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind

from stratamq.server.kafka.ordering import RequestSlot
from stratamq.server.kafka.watch import about

logger = logging.getLogger(__name__)

PATH = "/v1/traces"
EXPORT_TIMEOUT_S = 5
CLOSE_S = 10.0
NS = 1_000_000_000

ATTRIBUTES = {
    "request": "stratamq.request",
    "api": "rpc.method",
    "version": "rpc.version",
    "client": "messaging.client.id",
    "principal": "enduser.id",
    "host": "client.address",
}
"""The names of the log's fields in a span."""


class RequestSpans:
    """`ratio` of all requests become spans, chosen at random."""

    def __init__(self, endpoint: str, ratio: float, node_id: int) -> None:
        url = endpoint.rstrip("/").removesuffix(PATH) + PATH
        about_us = {"service.name": "stratamq", "service.instance.id": str(node_id)}
        self._provider = TracerProvider(resource=Resource.create(about_us))
        exporter = OTLPSpanExporter(endpoint=url, timeout=EXPORT_TIMEOUT_S)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("stratamq")
        self._ratio = ratio

    def add(self, slot: RequestSlot, took_s: float) -> None:
        """A request that took so long until now."""
        if random.random() >= self._ratio:
            return
        ended_ns, fields = time.time_ns(), about(slot)
        span = self._tracer.start_span(
            str(fields["api"]),
            Context(),  # a request has no parent: Kafka's protocol has no field for one
            SpanKind.SERVER,
            {
                "rpc.system": "kafka",
                **{name: str(fields[field]) for field, name in ATTRIBUTES.items()},
                "stratamq.request.bytes": slot.size_bytes,
                "stratamq.queue.seconds": slot.began_at - slot.read_at,
            },
            start_time=ended_ns - int(took_s * NS),
        )
        span.end(ended_ns)

    async def close(self) -> None:
        """Send what is left, unless the collector does not answer."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await asyncio.to_thread(self._provider.shutdown)
        except TimeoutError:
            logger.warning("the last spans were not sent: the collector does not answer")
