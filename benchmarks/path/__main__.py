"""`python -m benchmarks.path`: the way of a one-record Produce, and of a Fetch at a log's end."""

from __future__ import annotations

import socket
import struct
import sys
from contextlib import ExitStack

from benchmarks.path.counting import Ask, Way, count
from stratamq.model.record import Record
from stratamq.wire.kafka.protocol import decode_response, encode_request
from stratamq.wire.kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from stratamq.wire.kafka.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from stratamq.wire.kafka.records import encode_batch

NAME = "orders"
PRODUCE, FETCH, CREATE_TOPICS = (0, 12), (1, 12), (19, 7)


class Client:
    """One blocking connection."""

    def __init__(self, host: str, port: int, closing: ExitStack, flush: str) -> None:
        self._socket = closing.enter_context(socket.create_connection((host, port), 30))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = CreatableTopicConfig(name="flush", value=flush)
        topic = CreatableTopic(
            name=NAME, num_partitions=1, replication_factor=1, configs=[config], assignments=[]
        )
        self.ask(encoded(CreateTopicsRequest(topics=[topic]), CREATE_TOPICS))

    def ask(self, frame: bytes) -> bytes:
        self._socket.sendall(frame)
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            assert part, "the node closed the connection"
            data += part
        return data


def encoded(body: object, api: tuple[int, int]) -> bytes:
    return b"".join(encode_request(body, api[1], 0, "path"))


def produce_frame() -> bytes:
    batch = encode_batch([Record(value=b"x" * 100)], now_ms=1_700_000_000_000)
    partition = PartitionProduceData(index=0, records=batch)
    topics = [TopicProduceData(name=NAME, partition_data=[partition])]
    return encoded(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics), PRODUCE)


def fetch_frame(offset: int) -> bytes:
    partition = FetchPartition(
        partition=0, current_leader_epoch=-1, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    topics = [FetchTopic(topic=NAME, partitions=[partition])]
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=topics, forgotten_topics_data=[]
    )
    return encoded(request, FETCH)


def produce(flush: str) -> Way:
    def prepare(host: str, port: int, closing: ExitStack) -> Ask:
        client, frame = Client(host, port, closing, flush), produce_frame()

        def ask() -> None:
            client.ask(frame)

        return ask

    return count(prepare)


def fetch() -> Way:
    """The newest of a few batches, which is there already."""

    def prepare(host: str, port: int, closing: ExitStack) -> Ask:
        client = Client(host, port, closing, "os")
        for _ in range(10):
            client.ask(produce_frame())
        frame = fetch_frame(9)
        answer = decode_response(client.ask(frame), *FETCH).body
        assert answer.responses[0].partitions[0].records, "a batch comes back"

        def ask() -> None:
            client.ask(frame)

        return ask

    return count(prepare)


CASES = {
    "produce, flush=os": lambda: produce("os"),
    "produce, flush=sync": lambda: produce("sync"),
    "fetch": fetch,
}


def main(chosen: list[str]) -> None:
    """With `-v`, every function with how often it is called."""
    for name, case in CASES.items():
        way = case()
        print(f"| {name} | {way.calls:.0f} calls | {len(way.files)} files |")
        if "-v" in chosen:
            for step, times in way.steps:
                if times >= 0.5:
                    print(f"    {times:5.1f} {step}")


if __name__ == "__main__":
    main(sys.argv[1:])
