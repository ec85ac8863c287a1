"""What a Produce request may cost: the event loop is not held, and what is unpacked is limited."""

from __future__ import annotations

import os

import pytest

from stratamq.engine.contract import ReadLimit
from stratamq.model.record import Record
from stratamq.model.types import Offset
from stratamq.wire.kafka.protocol import ErrorCode, decode_response
from stratamq.wire.kafka.records import Compression, encode_batch
from tests.attack.bombs import MIB, bomb, produce, small, swarm
from tests.attack.conftest import Starter
from tests.attack.raw import RawClient, frame_of
from tests.attack.watching import watched_loop

VERSION = 9
HELD_S_MAX = 0.1
"""Of the loop's processor time in one turn, on a machine that does much else: without the thread
it would be seconds."""


def codes(response: object) -> list[ErrorCode]:
    return [
        ErrorCode(one.error_code)
        for topic in response.responses  # type: ignore[attr-defined]
        for one in topic.partition_responses
    ]


@pytest.mark.parametrize("codec", [one for one in Compression if one])
async def test_bombs_do_not_hold_the_loop(inside: Starter, codec: Compression) -> None:
    most = 20 if codec is Compression.SNAPPY else 50  # what a batch of 1 MiB unpacks to
    async with inside() as node:
        await node.core.topics.create("t")
        with watched_loop() as watch:
            answer = await node.asked(produce(*[bomb(most * MIB, codec)] * 4), VERSION)
        assert set(codes(answer)) == {ErrorCode.NONE}
        assert watch.held_s_max < HELD_S_MAX
        assert watch.turns > 10


async def test_a_million_records_do_not_hold_the_loop(inside: Starter) -> None:
    async with inside() as node:
        await node.core.topics.create("t")
        with watched_loop() as watch:
            answer = await node.asked(produce(swarm(900_000)), VERSION)
        assert codes(answer) == [ErrorCode.NONE]
        assert watch.held_s_max < HELD_S_MAX


async def test_packing_batches_again_does_not_hold_the_loop(inside: Starter) -> None:
    """A topic with a codec of its own: gzip takes 50 ms for a megabyte of noise."""
    async with inside() as node:
        await node.core.topics.create("t", config={"compression.type": "gzip"})
        batch = encode_batch([Record(value=os.urandom(1000)) for _ in range(900)], now_ms=1000)
        with watched_loop() as watch:
            answer = await node.asked(produce(*[batch] * 8), VERSION)
        assert set(codes(answer)) == {ErrorCode.NONE}
        assert watch.held_s_max < HELD_S_MAX


async def test_refused_records_are_named_without_decoding_all_of_them(inside: Starter) -> None:
    async with inside() as node:
        await node.core.topics.create("t", config={"cleanup.policy": "compact"})
        with watched_loop() as watch:
            answer = await node.asked(produce(swarm(500_000, keyed=False)), VERSION)
        (refused,) = answer.responses[0].partition_responses
        assert refused.error_code == ErrorCode.INVALID_RECORD
        assert [one.batch_index for one in refused.record_errors] == list(range(100))
        assert watch.held_s_max < HELD_S_MAX


async def test_old_records_are_named_without_decoding_all_of_them(inside: Starter) -> None:
    async with inside() as node:
        await node.core.topics.create("t", config={"message.timestamp.before.max.ms": 1000})
        with watched_loop() as watch:
            answer = await node.asked(produce(swarm(500_000)), VERSION)
        (refused,) = answer.responses[0].partition_responses
        assert refused.error_code == ErrorCode.INVALID_TIMESTAMP
        assert len(refused.record_errors) == 100
        assert watch.held_s_max < HELD_S_MAX


# -- order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [1, 0])
async def test_small_batches_do_not_overtake_a_bomb_before_them(inside: Starter, acks: int) -> None:
    """On one connection, all sent before the first answer: what is looked at by the thread and what
    is not, with and without a task, in requests of one batch and of many."""
    sent: list[int] = []

    def act(client: RawClient) -> None:
        for number in range(12):
            marked = b"%d" % number
            batch = encode_batch(
                [Record(value=bytes(3 * MIB) if number % 4 == 0 else b"", key=marked)],
                now_ms=1000,
                compression=Compression.ZSTD if number % 4 == 0 else Compression.NONE,
            )
            others = [(1, small(b"x"))] * (number % 3)
            client.send(frame_of(produce(*others, batch, acks=acks), VERSION, number))
            sent.append(number)
        client.send(frame_of(produce((1, small(b"end"))), VERSION, len(sent)))
        for number in range(len(sent) + 1) if acks else [len(sent)]:
            response = decode_response(client.answer(), 0, VERSION)
            assert response.correlation_id == number
            assert set(codes(response.body)) == {ErrorCode.NONE}

    async with inside() as node:
        await node.core.topics.create("t", partitions=2)
        await node.client(act)
        found = await node.core.drivers.read_by_offset("t", 0, Offset(0), ReadLimit(100, 100 * MIB))
        assert [int(one.key or b"") for one in found] == sent


# -- limits ----------------------------------------------------------------------------------------


async def test_what_a_request_unpacks_to_is_limited(inside: Starter) -> None:
    """The tenth of them would fit by itself; those before it have used up what the request has."""
    async with inside(produce_decompressed_bytes_max=20 * MIB) as node:
        await node.core.topics.create("t")
        plain = encode_batch([Record(value=bytes(500_000))], now_ms=1000)
        answer = await node.asked(produce(*[bomb(6 * MIB)] * 10, plain), VERSION)
        fits = [ErrorCode.NONE] * 3
        assert codes(answer) == fits + [ErrorCode.MESSAGE_TOO_LARGE] * 7 + [ErrorCode.NONE]
        assert (await node.core.drivers.offsets("t", 0)).end == 4
        answer = await node.asked(produce(bomb(6 * MIB)), VERSION)
        assert codes(answer) == [ErrorCode.NONE], "the next request has its own"


async def test_the_records_of_a_request_are_limited(inside: Starter) -> None:
    async with inside(produce_records_max=1000) as node:
        await node.core.topics.create("t")
        answer = await node.asked(produce(swarm(600), swarm(600), swarm(400)), VERSION)
        assert codes(answer) == [
            *(ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE)
        ]


async def test_the_batches_of_a_request_are_limited(inside: Starter) -> None:
    async with inside(produce_batches_max=100) as node:
        await node.core.topics.create("t")
        answer = await node.asked(produce(*[small(b"x")] * 150), VERSION)
        assert codes(answer) == [ErrorCode.NONE] * 100 + [ErrorCode.POLICY_VIOLATION] * 50
        assert (await node.core.drivers.offsets("t", 0)).end == 100
