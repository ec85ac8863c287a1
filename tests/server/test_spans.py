"""Requests as spans: a real node sends them to a receiver of OTLP; off, it imports nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stratamq.client import Client, ClientOptions, TopicPartition
from stratamq.client.options import Server
from stratamq.model.config import load
from stratamq.model.errors import InvalidConfig
from stratamq.model.record import Record
from stratamq.node.kafka import request_spans
from stratamq.server.kafka.spans import Collector
from stratamq.wire.kafka.records import encode_batch
from tests.clients.node import Node, running

TRACEPARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOW_MS = 1_700_000_000_000


class Receiver(BaseHTTPRequestHandler):
    received: list[tuple[str, bytes]]
    statuses: list[int]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((self.path, body))
        self.send_response(self.statuses.pop() if self.statuses else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def receiving(*statuses: int) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Answers with these, and then well."""
    received: list[tuple[str, bytes]] = []
    handler = type("Handler", (Receiver,), {"received": received, "statuses": [*statuses]})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", received
        finally:
            server.shutdown()
            thread.join()


def spans(received: list[tuple[str, bytes]]) -> list[Any]:
    found = []
    for path, body in received:
        assert path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {one.key: one.value.string_value for one in resource.resource.attributes}
            assert names["service.name"] == "stratamq"
            found += [span for scope in resource.scope_spans for span in scope.spans]
    return found


async def produce(node: Node) -> bytes:
    """One record with a trace of its own, and what a consumer gets of it."""
    place = TopicPartition("traced", 0)
    options = ClientOptions(servers=(Server(node.host, node.port),), client_id="tracer")
    record = Record(value=b"x", timestamp=NOW_MS, headers=((b"traceparent", TRACEPARENT),))
    async with Client(options) as client:
        await client.create_topic("traced", 1)
        await client.produce(place, encode_batch([record], now_ms=NOW_MS))
        return bytes((await client.fetch(place, 0)).data)


async def test_requests_reach_a_collector_as_spans(tmp_path: Path) -> None:
    with receiving() as (url, received):
        flags = ("--otel-endpoint", url, "--otel-sample-ratio", "1")
        with running(tmp_path, *flags) as node:
            assert TRACEPARENT in await produce(node)
            assert node.end() == 0
        found = {span.name: span for span in spans(received)}
    assert {"ApiVersions", "CreateTopics", "Produce", "Fetch"} <= set(found)
    span = found["Produce"]
    assert span.end_time_unix_nano > span.start_time_unix_nano > 0
    assert not span.parent_span_id
    attributes = {one.key: one.value.string_value for one in span.attributes}
    assert attributes["rpc.method"] == "Produce"
    assert attributes["client.address"] == "127.0.0.1"
    assert attributes["enduser.id"] == "User:ANONYMOUS"
    assert attributes["messaging.client.id"] == "tracer"
    assert TRACEPARENT.split(b"-")[1].hex() not in span.trace_id.hex()


async def test_a_share_of_none_sends_none(tmp_path: Path) -> None:
    with receiving() as (url, received):
        flags = ("--otel-endpoint", url, "--otel-sample-ratio", "0")
        with running(tmp_path, *flags) as node:
            await produce(node)
            assert node.end() == 0
    assert received == []


async def test_a_collector_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    flags = ("--otel-endpoint", "http://127.0.0.1:9", "--otel-sample-ratio", "1")
    with running(tmp_path, *flags) as node:
        assert TRACEPARENT in await produce(node)
        assert node.end() == 0


def test_a_lost_collector_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    with receiving(400, 400, 400) as (url, received):
        collector = Collector(url)
        for _ in range(5):
            collector.export([])
    assert len(received) == 5
    said = [one.message for one in caplog.records if one.name.startswith("stratamq")]
    assert said == [f"spans are lost: {url}", f"spans are sent again: {url}"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"otel.sample.ratio": "2"}, "'2' is not a number from 0 to 1"),
        ({"otel.sample.ratio": "some"}, "'some' is not a number from 0 to 1"),
        ({"otel.endpoint": "collector:4318"}, "http://"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, str], words: str) -> None:
    config = load(flags={"otel.endpoint": "http://127.0.0.1:1", **settings})
    with pytest.raises(InvalidConfig, match=words):
        request_spans(config)


ALONE = """
import sys
if {blocked}:
    sys.modules["opentelemetry"] = None
from stratamq.model.config import load
from stratamq.node import kafka
try:
    print(kafka.request_spans(load(flags={flags!r})))
except Exception as error:
    print(type(error).__name__, error)
print(any(name.startswith("opentelemetry.") for name in sys.modules))
"""


def alone(*, blocked: bool, **flags: str) -> list[str]:
    program = ALONE.format(blocked=blocked, flags={"otel.endpoint": flags.get("endpoint", "")})
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.splitlines()


def test_off_means_that_nothing_is_imported() -> None:
    assert alone(blocked=False) == ["None", "False"]


def test_without_the_packages_one_sentence_says_what_to_install() -> None:
    said, _ = alone(blocked=True, endpoint="http://127.0.0.1:4318")
    assert said == (
        "InvalidConfig otel.endpoint needs OpenTelemetry, which is not installed: "
        "pip install 'stratamq[otel]'"
    )
