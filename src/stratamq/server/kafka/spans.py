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
from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.trace import SpanKind

from stratamq.server.kafka.ordering import RequestSlot
from stratamq.server.kafka.watch import about

logger = logging.getLogger(__name__)

PATH = "/v1/traces"
EXPORT_TIMEOUT_S = 5
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


class Collector(OTLPSpanExporter):
    """Says once that spans cannot be sent, and once that they can again: the SDK would say it every
    second."""

    def __init__(self, url: str) -> None:
        super().__init__(endpoint=url, timeout=EXPORT_TIMEOUT_S)
        self._url, self.is_lost = url, False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        is_lost = result is not SpanExportResult.SUCCESS
        if is_lost is not self.is_lost:
            event = "spans are lost: %s" if is_lost else "spans are sent again: %s"
            logger.warning(event, self._url)
        self.is_lost = is_lost
        return result


class RequestSpans:
    """`ratio` of all requests become spans, chosen at random."""

    def __init__(self, endpoint: str, ratio: float, node_id: int) -> None:
        url = endpoint.rstrip("/").removesuffix(PATH) + PATH
        about_us = {"service.name": "stratamq", "service.instance.id": str(node_id)}
        self._provider = TracerProvider(resource=Resource.create(about_us))
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._collector = Collector(url)
        self._provider.add_span_processor(BatchSpanProcessor(self._collector))
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
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        if not self._collector.is_lost:
            self._provider.force_flush()
        # What is not sent by now is dropped, and not tried again.
        self._collector.shutdown()  # type: ignore[no-untyped-call]
        self._provider.shutdown()
