"""Clients that mean harm, or are broken: each is answered or closed, everybody else is served, and
memory stays within bounds. A node of its own, with tight limits."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer

from stratamq.wire.kafka.protocol import APIS, ErrorCode, decode_response, encode_request
from stratamq.wire.kafka.protocol.messages.api_versions import ApiVersionsRequest
from stratamq.wire.kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratamq.wire.kafka.protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from stratamq.wire.kafka.protocol.messages.metadata import MetadataRequest
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from stratamq.wire.kafka.protocol.schema import message_of
from tests.clients.node import Node, running
from tests.waiting import let_run_here

MIB = 1 << 20
SECONDS_MAX = 20
CONNECTIONS = 1000
API_VERSIONS = b"".join(encode_request(ApiVersionsRequest(), 0, 1, "test"))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    limits = (
        *("--topic-flush", "os", "--log-level", "info"),
        *("--kafka-connections-max", "1100", "--kafka-idle-ms-max", "3000"),
        *("--kafka-request-bytes-max", str(32 * MIB)),
        *("--kafka-response-bytes-max", str(32 * MIB)),
    )
    with running(tmp_path_factory.mktemp("hostile"), *limits) as node:
        yield node
        assert node.end() == 0


@pytest.fixture(autouse=True)
def _still_served(node: Node) -> Iterator[None]:
    yield
    assert node.process.poll() is None, node.logged()
    assert "Traceback" not in node.logged(), node.logged()
    with connected(node) as peer:
        peer.sendall(API_VERSIONS)
        assert answered(peer)


@contextlib.contextmanager
def connected(node: Node) -> Iterator[socket.socket]:
    with socket.create_connection((node.host, node.port), SECONDS_MAX) as peer:
        peer.settimeout(SECONDS_MAX)
        yield peer


def exactly(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = peer.recv(count - len(data))
        if not part:
            raise ConnectionError("closed by the node")
        data += part
    return data


def answered(peer: socket.socket) -> bytes:
    """The next frame."""
    (size,) = struct.unpack(">i", exactly(peer, 4))
    return exactly(peer, size)


def is_closed(peer: socket.socket) -> bool:
    """Whether the node closes the connection without another word."""
    try:
        return peer.recv(1) == b""
    except ConnectionError:
        return True


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def header(api_key: int, version: int) -> bytes:
    return struct.pack(">hhih", api_key, version, 7, -1)


def filled(node: Node, topic: str, value: bytes, count: int) -> None:
    producer = Producer({"bootstrap.servers": node.address})
    for _ in range(count):
        producer.produce(topic, value)
    assert producer.flush(SECONDS_MAX) == 0


def fetch(topic: str, offset: int = 0, max_wait_ms: int = 100) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=5 * MIB)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=5 * MIB,
        topics=[FetchTopic(topic=topic, partitions=[part])],
    )


HOSTILE = {
    "2 GiB claimed": struct.pack(">i", (1 << 31) - 1),
    "negative size": struct.pack(">i", -1),
    "empty frame": frame(b""),
    "short header": frame(b"\0\0\0"),
    "unknown API key": frame(header(9999, 0)),
    "negative API key": frame(header(-1, 0)),
    "version too new": frame(header(3, 99)),
    "version too old": frame(header(0, 0)),
    "array of 2 billion": frame(header(3, 1) + struct.pack(">i", (1 << 31) - 1)),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS hello": bytes.fromhex("1603010200010001fc0303") + bytes(500),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nonsense_is_closed(node: Node, name: str) -> None:
    with connected(node) as peer:
        peer.sendall(HOSTILE[name])
        assert is_closed(peer)


def test_an_api_versions_request_from_the_future_is_answered(node: Node) -> None:
    with connected(node) as peer:
        peer.sendall(frame(header(18, 99)))
        body = answered(peer)
        assert struct.unpack(">ih", body[:6]) == (7, 35)
        peer.sendall(API_VERSIONS)
        assert answered(peer), "the connection goes on"


def test_a_truncated_frame_waits_for_its_rest(node: Node) -> None:
    with connected(node) as peer:
        for byte in API_VERSIONS[:-1]:
            peer.sendall(bytes([byte]))
        peer.settimeout(0.2)
        with pytest.raises(TimeoutError):
            peer.recv(1)
        peer.settimeout(SECONDS_MAX)
        peer.sendall(API_VERSIONS[-1:])
        assert answered(peer)


def test_random_bytes(node: Node) -> None:
    chance = random.Random(3)
    for _ in range(200):
        with connected(node) as peer, contextlib.suppress(ConnectionError):
            peer.sendall(chance.randbytes(chance.randrange(1, 400)))


def test_random_bodies_of_every_api(node: Node) -> None:
    chance = random.Random(4)
    for key, api in APIS.items():
        for version in {api.versions.first, api.versions.last}:
            with connected(node) as peer, contextlib.suppress(ConnectionError):
                body = chance.randbytes(chance.randrange(200))
                peer.sendall(frame(header(key, version) + b"\0" + body))


def test_requests_are_answered_in_order(node: Node) -> None:
    """The first waits for records, those behind it could be answered at once."""
    filled(node, "order", bytes(1), 1)
    metadata = MetadataRequest(topics=[])
    requests = [
        b"".join(encode_request(fetch("order", offset=1, max_wait_ms=300), 11, 0)),
        *(b"".join(encode_request(metadata, 1, number)) for number in range(1, 500)),
    ]
    with connected(node) as peer:
        began = time.monotonic()
        peer.sendall(b"".join(requests))
        order = [struct.unpack(">i", answered(peer)[:4])[0] for _ in requests]
        assert time.monotonic() - began > 0.25, "the first did not wait"
        assert order == list(range(500))


def test_a_thousand_connections_with_half_a_request_each(node: Node) -> None:
    before = node.memory_bytes()
    with contextlib.ExitStack() as open_:
        peers = [open_.enter_context(connected(node)) for _ in range(CONNECTIONS)]
        for peer in peers:
            peer.sendall(struct.pack(">i", 90 * MIB) + bytes(1000))
        with connected(node) as other:
            other.sendall(API_VERSIONS)
            assert answered(other)
        assert node.memory_bytes() - before < 100 * MIB
        for peer in peers:
            assert is_closed(peer), "idle, in the midst of a request"


def test_connections_over_the_limit_are_closed_at_once(node: Node) -> None:
    with contextlib.ExitStack() as open_:
        peers = [open_.enter_context(connected(node)) for _ in range(1150)]
        peers[-1].settimeout(5)
        assert is_closed(peers[-1])
        peers[0].sendall(API_VERSIONS)
        assert answered(peers[0])


def test_large_unfinished_requests_do_not_fill_the_memory(node: Node) -> None:
    before = node.memory_bytes()
    with contextlib.ExitStack() as open_:
        peers = [open_.enter_context(connected(node)) for _ in range(30)]
        for peer in peers:
            peer.setblocking(False)
            peer.sendall(struct.pack(">i", 90 * MIB))
        for _ in range(100):
            for peer in peers:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    peer.send(bytes(MIB))
            let_run_here(0.01)
        grown = node.memory_bytes() - before
        assert grown < 120 * MIB, f"{grown >> 20} MiB"
        with connected(node) as other:
            other.sendall(API_VERSIONS)
            assert answered(other)


def test_many_large_requests_at_a_time_are_all_answered_within_the_limit(node: Node) -> None:
    """Forty of 8 MiB, where 32 MiB are allowed."""
    part = PartitionProduceData(index=0, records=bytes(8 * MIB))
    topic = TopicProduceData(name="none", partition_data=[part])
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    data = b"".join(encode_request(request, 9, 1))

    def send(peer: socket.socket) -> bytes:
        peer.sendall(data)
        return answered(peer)

    with node.grows_by_less_than(48 * MIB), contextlib.ExitStack() as open_:
        peers = [open_.enter_context(connected(node)) for _ in range(40)]
        with ThreadPoolExecutor(len(peers)) as threads:
            assert all(threads.map(send, peers))


def test_slow_readers_share_one_limit(node: Node) -> None:
    """Each asks for 16 times 5 MiB and reads nothing."""
    filled(node, "slow", bytes(500_000), 20)
    ask = b"".join(encode_request(fetch("slow"), 11, 1))
    before = node.memory_bytes()
    with contextlib.ExitStack() as open_:
        peers = [open_.enter_context(connected(node)) for _ in range(40)]
        for peer in peers:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.sendall(ask * 16)
        let_run_here(1.5)
        grown = node.memory_bytes() - before
        assert grown < 150 * MIB, f"{grown >> 20} MiB"
    with connected(node) as peer:
        peer.sendall(ask)
        response = decode_response(answered(peer), 1, 11).body
        assert len(response.responses[0].partitions[0].records) > 4 * MIB


def test_fetches_that_wait_for_more_share_one_limit(node: Node) -> None:
    """Each has 5 MiB and wants one byte more."""
    filled(node, "gathered", bytes(500_000), 10)
    ask = fetch("gathered", max_wait_ms=1000)
    ask.min_bytes = ask.max_bytes = 6 * MIB
    with node.grows_by_less_than(80 * MIB), contextlib.ExitStack() as open_:
        peers = [open_.enter_context(connected(node)) for _ in range(40)]
        for peer in peers:
            peer.sendall(b"".join(encode_request(ask, 11, 1)))
        for peer in peers:
            assert answered(peer)


def test_half_open_connections_are_closed_when_idle(node: Node) -> None:
    with connected(node) as peer:
        peer.sendall(API_VERSIONS)
        assert answered(peer)
        began = time.monotonic()
        assert is_closed(peer)
        assert time.monotonic() - began > 2


def test_members_that_say_too_much_leave_nothing_behind(node: Node) -> None:
    """What JoinGroup and SyncGroup bring is refused above the limits, whatever the frame allows."""
    before = node.memory_bytes()
    with connected(node) as peer:
        for number in range(4):
            peer.sendall(asked(joining(f"large-{number}", bytes(20 * MIB))))
            assert response(peer, JoinGroupRequest, 3).error_code == ErrorCode.MESSAGE_TOO_LARGE
        peer.sendall(asked(joining("small", b"m")))
        joined = response(peer, JoinGroupRequest, 3)
        assert joined.error_code == 0
        assignment = SyncGroupRequestAssignment(
            member_id=joined.member_id, assignment=bytes(20 * MIB)
        )
        sync = SyncGroupRequest(
            group_id="small",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[assignment],
        )
        peer.sendall(asked(sync))
        assert response(peer, SyncGroupRequest, 3).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert node.memory_bytes() - before < 40 * MIB
    assert "group.member.bytes.max" in node.logged()


def joining(group: str, metadata: bytes) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def asked(request: object, version: int = 3) -> bytes:
    return b"".join(encode_request(request, version, 1, "test"))


def response(peer: socket.socket, kind: type, version: int) -> Any:
    return decode_response(answered(peer), message_of(kind).key, version).body
