"""Lengths and counts: long ones, absurd ones, and those that lie by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stratamq.wire.kafka.protocol import MalformedMessage
from stratamq.wire.kafka.protocol.codec import decode, encode
from stratamq.wire.kafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from stratamq.wire.kafka.protocol.runtime import PACKERS_MAX, Packers, Unpackers
from stratamq.wire.kafka.protocol.schema import INT32, STRING, array, request, struct, wire
from tests.wire.protocol.thing import Part, Thing, unwired

# -- varints ---------------------------------------------------------------------------------------


def test_a_varint_may_take_two_bytes_and_more() -> None:
    message = Thing(name="n" * 20_000, added=0, hint=0, numbers=range(200))
    data = b"".join(encode(message, 2))
    assert data[:3] == b"\xa1\x9c\x01"
    assert decode(Thing, 2, data) == Thing(
        name="n" * 20_000, added=0, hint=0, numbers=[*range(200)]
    )


@pytest.mark.parametrize("count", [0, 1, 126, 127, 128, 16_382, 16_383])
def test_arrays_of_numbers_at_the_edges_of_their_varint(count: int) -> None:
    message = Thing(name="", added=3, hint=4, numbers=[*range(count)])
    assert decode(Thing, 2, b"".join(encode(message, 2))) == message


@pytest.mark.parametrize("counts", [(130, 2, 0), (1, 130, 200), (0, 127, 1), (126, 126, 126)])
def test_several_long_arrays_side_by_side(counts: tuple[int, ...]) -> None:
    replicas, isr, offline = ([*range(count)] for count in counts)
    partition = MetadataResponsePartition(
        partition_index=5,
        leader_id=6,
        leader_epoch=7,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )
    topic = MetadataResponseTopic(name="t", partitions=[partition])
    message = MetadataResponse(brokers=[], topics=[topic])
    for version in (8, 12):
        assert decode(MetadataResponse, version, b"".join(encode(message, version))) == message


def test_lengths_are_not_remembered_without_end() -> None:
    packers = Packers(">i{}b", [0], compact=False)
    for length in range(PACKERS_MAX + 10):
        assert packers[length](length, *bytes(length)) == length.to_bytes(4, "big") + bytes(length)
    assert len(packers) == 10
    unpackers = Unpackers("b")
    for length in (0, 10, 10_000):
        assert unpackers[length](bytes(length), 0) == (0,) * length
    assert 10_000 not in unpackers
    assert 10 in unpackers


@pytest.mark.parametrize("varint", ["ffffffff7f", "ffffffff10", "8080808080", "ffffffffffffffff7f"])
def test_a_varint_over_32_bits_is_refused(varint: str) -> None:
    with pytest.raises(MalformedMessage, match="over 32 bits"):
        unwired(varint + "00" * 20, 3)


# -- counts ----------------------------------------------------------------------------------------


@struct
class Pair:
    numbers: Sequence[int] = wire(array(INT32))
    name: str = wire(STRING)


@struct
class Maybe:
    part: Part | None = wire(Part, nullable=True, default=None)


@request(key=1002, versions="0", flexible="0+")
class Lists:
    """Arrays of every kind of element, by their smallest size: 4, 1, 3 and 2 bytes."""

    numbers: Sequence[int] = wire(array(INT32), default=())
    names: Sequence[str] = wire(array(STRING), default=())
    pairs: Sequence[Pair] = wire(array(Pair), default=())
    maybes: Sequence[Maybe] = wire(array(Maybe), default=())


def lists(hexed: str) -> Lists:
    return decode(Lists, 0, bytes.fromhex(hexed))


def test_the_smallest_elements_fit() -> None:
    smallest = Lists(
        numbers=[0, 0], names=["", ""], pairs=[Pair(numbers=[], name="")] * 2, maybes=[Maybe()] * 2
    )
    data = b"".join(encode(smallest, 0))
    assert (
        data.hex(" ") == "03" + " 00" * 8 + " 03 01 01 03" + " 01 01 00" * 2 + " 03 ff 00 ff 00 00"
    )
    assert decode(Lists, 0, data) == smallest


@pytest.mark.parametrize(
    ("hexed", "count"),
    [
        ("04" + "00" * 11, 3),
        ("01 09" + "00" * 7, 8),
        ("01 01 06" + "01" * 14, 5),
        ("01 01 01 07" + "ff" * 11, 6),
    ],
    ids=["numbers", "strings", "structs", "nullable-structs"],
)
def test_a_count_is_held_against_the_bytes_that_are_left(hexed: str, count: int) -> None:
    """One byte less than the smallest elements take: refused before the first of them is made."""
    with pytest.raises(MalformedMessage, match=f"{count} elements at byte .* more than can be"):
        lists(hexed)
