"""Reading and writing in steps gives what doing it at once gives, and pauses on the way."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import pytest

from stratamq.wire.kafka.protocol import (
    MalformedMessage,
    UnsendableValue,
    decode_request,
    decode_request_in_steps,
    encode_request,
    encode_response_in_steps,
)
from stratamq.wire.kafka.protocol.codec import decode_in_steps, encode_in_steps
from stratamq.wire.kafka.protocol.exchange import RequestHeader
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stratamq.wire.kafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from stratamq.wire.kafka.protocol.source import STEP_ELEMENTS
from tests.wire.protocol.support import CASES, Case, case_name, sample, wired

T = TypeVar("T")


def run(steps: Generator[None, None, T]) -> tuple[T, int]:
    """The result, and how often it paused."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_in_steps_as_at_once(case: Case) -> None:
    message_type, version = case
    full = sample(message_type, version)
    data = wired(full, version)
    buffers, _ = run(encode_in_steps(full, version))
    assert b"".join(buffers) == data
    (message, elements), _ = run(decode_in_steps(message_type, version, data, 0, True, 1000))
    assert message == full
    assert 0 <= elements < 1000
    with pytest.raises(MalformedMessage):
        run(decode_in_steps(message_type, version, data + b"\0", 0, True, 1000))


def asked(topics: int, partitions: int) -> ListOffsetsRequest:
    wanted = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(partitions)]
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=f"t{n}", partitions=wanted) for n in range(topics)],
    )


@pytest.mark.parametrize(("topics", "partitions"), [(5000, 1), (1, 5000), (100, 50)])
def test_a_pause_comes_after_every_few_elements_wherever_they_are(
    topics: int, partitions: int
) -> None:
    frame = b"".join(encode_request(asked(topics, partitions), 10, 1))[4:]
    (header, body, elements), pauses = run(decode_request_in_steps(frame))
    assert elements == topics + topics * partitions
    assert pauses >= elements // STEP_ELEMENTS
    assert (header, body) == decode_request(frame)[:2]


def described(partitions: int) -> MetadataResponse:
    some = [
        MetadataResponsePartition(
            partition_index=n, leader_id=1, replica_nodes=[1], isr_nodes=[1], offline_replicas=[]
        )
        for n in range(partitions)
    ]
    topic = MetadataResponseTopic(name="t", partitions=some)
    return MetadataResponse(brokers=[], topics=[topic])


def test_what_was_written_before_a_pause_is_joined() -> None:
    """Small parts are not held until the end: of memory, they take several times their bytes."""
    buffers, pauses = run(encode_response_in_steps(RequestHeader(3, 12, 7), described(5000)))
    assert pauses >= 5000 // STEP_ELEMENTS
    assert len(buffers) <= pauses + 1
    assert b"".join(buffers)[4:] == b"\0\0\0\7\0" + wired(described(5000), 12)


def test_errors_are_the_same() -> None:
    frame = b"".join(encode_request(asked(2, 2), 10, 1))[4:]
    with pytest.raises(MalformedMessage, match="elements"):
        run(decode_request_in_steps(frame, elements_max=3))
    with pytest.raises(MalformedMessage, match="ends early"):
        run(decode_request_in_steps(frame[:-1]))
    unsendable: Any = MetadataResponse(
        brokers=[], topics=[MetadataResponseTopic(name=7, partitions=[])]
    )  # type: ignore[arg-type]
    with pytest.raises(UnsendableValue, match=r"name_\d+ = item_\d+.name"):
        run(encode_in_steps(unsendable, 1))
