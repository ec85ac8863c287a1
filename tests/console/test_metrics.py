"""Metrics of a real node: what Prometheus reads, and that the numbers move as they should."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stratamq.client import Client, ClientOptions, TopicPartition
from stratamq.client.options import Login, Server
from stratamq.console.collector import OTHER_TOPICS
from stratamq.console.metrics import METRICS
from stratamq.model.errors import Denied, StrataError
from stratamq.model.record import Record
from stratamq.wire.kafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from stratamq.wire.kafka.records import encode_batch
from tests.clients.node import Node, running
from tests.clients.security import SECURE, add_users
from tests.console.metrics import Scrape, scrape
from tests.console.web import address_of
from tests.waiting import every, until

CONSOLE = ("--console-port", "0")
WRONG = Login(mechanism="SCRAM-SHA-256", user="root", password="wrong")
NOW_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    flags = (*CONSOLE, "--metrics-topics-max", "4", "--metrics-groups-max", "2")
    with running(tmp_path_factory.mktemp("metrics"), *flags) as node:
        yield node
        assert node.end() == 0, node.logged()


@asynccontextmanager
async def connected(node: Node, login: Login | None = None) -> AsyncIterator[Client]:
    server = Server(node.host, node.port)
    options = ClientOptions(servers=(server,), login=login, retry_ms_max=1000)
    async with Client(options) as client:
        yield client


def metrics_of(node: Node) -> Scrape:
    return scrape(address_of(node.ready))


def batch(count: int) -> bytes:
    return encode_batch([Record(value=b"x" * 100, timestamp=NOW_MS)] * count, now_ms=NOW_MS)


async def test_what_is_written_and_read_is_counted(node: Node) -> None:
    place, data = TopicPartition("counted", 0), batch(7)
    async with connected(node) as client:
        await client.create_topic("counted", 1, configs={"flush": "sync"})
        before = metrics_of(node)
        await client.produce(place, data)
        await client.produce(place, data)
        after = metrics_of(node)
        topic = {"topic": "counted"}
        assert after.of("topic_appended_records_total", **topic) == 14
        assert after.of("topic_appended_bytes_total", **topic) == 2 * len(data)
        assert after.of("topic_fetched_bytes_total", **topic) == 0
        produce = {"api": "Produce"}
        count = after.of("request_seconds_count", **produce)
        assert count == before.of("request_seconds_count", **produce) + 2
        assert after.of("request_seconds_bucket", **produce, le="+Inf") == count
        assert after.of("request_seconds_sum", **produce) > 0
        assert after["sync_seconds_count"] >= before["sync_seconds_count"] + 2
        assert after["received_bytes_total"] >= before["received_bytes_total"] + 2 * len(data)

        await client.fetch(place, 0)
        read = metrics_of(node)
        assert read.of("topic_fetched_records_total", **topic) == 14
        assert read.of("topic_fetched_bytes_total", **topic) == 2 * len(data)
        assert read["sent_bytes_total"] >= after["sent_bytes_total"] + 2 * len(data)
        assert read.of("request_seconds_count", api="Fetch") >= 1
        assert read["connections"] >= 1


async def test_refused_requests_are_counted(node: Node) -> None:
    name = {"api": "CreateTopics", "error": "INVALID_TOPIC_EXCEPTION"}
    before = metrics_of(node)
    async with connected(node) as client:
        with pytest.raises(StrataError):
            await client.create_topic("not a name", 1)
    after = metrics_of(node)
    assert after.of("request_errors_total", **name) == before.of("request_errors_total", **name) + 1
    assert after["connections_accepted_total"] > before["connections_accepted_total"]


async def test_connections_over_the_limit_are_counted(tmp_path: Path) -> None:
    with running(tmp_path, *CONSOLE, "--kafka-connections-max", "1") as node:
        async with connected(node) as client:
            await client.cluster()
            reader, writer = await asyncio.open_connection(node.host, node.port)
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
            found = metrics_of(node)
            assert (found["connections"], found["connections_refused_total"]) == (1, 1)
            assert found["connections_accepted_total"] == 1
        assert node.end() == 0


async def test_failed_logins_are_counted(tmp_path: Path) -> None:
    add_users(tmp_path, "root")
    with running(tmp_path, *SECURE, *CONSOLE) as node:
        assert metrics_of(node)["authentication_failures_total"] == 0
        with pytest.raises(Denied):
            async with connected(node, WRONG) as client:
                await client.cluster()
        after = metrics_of(node)
        assert after["authentication_failures_total"] >= 1
        assert after.of(
            "request_errors_total", api="SaslAuthenticate", error="SASL_AUTHENTICATION_FAILED"
        )
        assert node.end() == 0


async def test_labels_do_not_grow_with_what_clients_ask_for(node: Node) -> None:
    names = [f"bogus-{number}" for number in range(10_000)]
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    )
    async with connected(node) as client:
        await client.create_topic("real", 1)
        before = metrics_of(node)
        await client.router.ask_any(asked, MetadataResponse)
        after = metrics_of(node)
    assert after.label("topic_appended_bytes_total", "topic") == before.label(
        "topic_appended_bytes_total", "topic"
    )
    new = {key[0] for key in after.samples.keys() - before.samples.keys()}
    assert new <= {
        "stratamq_request_errors_total",
        *(f"stratamq_request_seconds_{part}" for part in ("bucket", "sum", "count")),
    }


async def test_topics_above_the_limit_share_a_row(tmp_path: Path) -> None:
    with running(tmp_path, *CONSOLE, "--metrics-topics-max", "2", "--topic-flush", "os") as node:
        async with connected(node) as client:
            for number in range(4):
                await client.create_topic(f"topic-{number}", 1)
                await client.produce(TopicPartition(f"topic-{number}", 0), batch(1))
        found = metrics_of(node)
        named = found.label("topic_appended_records_total", "topic")
        assert len(named) == 3
        assert OTHER_TOPICS in named
        assert found.of("topic_appended_records_total", topic=OTHER_TOPICS) == 2
        assert found.of("topic_log_bytes", topic=OTHER_TOPICS) == 2 * len(batch(1))
        assert found["topics"] == 4
        assert node.end() == 0


async def test_groups_their_members_and_their_lag(tmp_path: Path) -> None:
    place = TopicPartition("read", 0)
    with running(tmp_path, *CONSOLE, "--metrics-groups-max", "1") as node:
        async with connected(node) as client:
            await client.create_topic("read", 1)
            await client.produce(place, batch(10))
            transaction = await client.begin("t")
            strange = 'a "group"\\\n'
            await transaction.commit_offset(strange, place, 4)
            await transaction.commit_offset("second", place, 4)
            await transaction.end(commit=True)
        found = metrics_of(node)
        [group] = found.label("group_lag_records", "group")
        assert group in (strange, "second")
        assert found.of("group_lag_records", group=group) == 6
        assert found["group_lag_omitted"] == 1
        assert found.of("groups", state="Empty") == 2
        assert node.end() == 0


def test_every_metric_has_help_and_a_name_by_the_conventions(node: Node) -> None:
    found = metrics_of(node)
    known = {metric.name.removesuffix("_total"): metric for metric in METRICS}
    for name, family in every(found.families.items()):
        metric = known[name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        assert family.name.startswith("stratamq_")
        assert (family.type == "counter") == metric.name.endswith("_total")
    assert known.keys() == found.families.keys()


def test_what_the_process_uses(node: Node) -> None:
    found = metrics_of(node)
    assert found["ready"] == 1
    assert 10 << 20 < found["memory_resident_bytes"] < 1 << 30
    assert 10 < found["files_open"] < found["files_open_max"]
    assert 0 < found["disk_free_bytes"] < found["disk_size_bytes"]
    assert found["cpu_seconds_total"] > 0
    assert found.label("build_info", "node") == {"1"}


async def test_the_event_loop_and_the_collector_are_watched(node: Node) -> None:
    await until(lambda: metrics_of(node)["event_loop_lag_seconds_count"])


async def test_shards_by_engine_and_state(node: Node) -> None:
    async with connected(node) as client:
        await client.create_topic("in-memory", 3, configs={"storage.type": "EngineMemory"})
    found = metrics_of(node)
    assert found.of("shards", engine="EngineMemory", state="open") == 3
    assert found.of("shards", engine="EngineMemory", state="unavailable") == 0
