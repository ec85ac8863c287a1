"""Subscriptions and assignments, as consumers hide them in bytes fields."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.wire.kafka.protocol import MalformedMessage, decode_embedded, encode_embedded
from stratamq.wire.kafka.protocol.messages.groups import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    MemberTopicPartitions,
)
from tests.wire.protocol.kafka_python_twin import TWINS
from tests.wire.protocol.support import DATA_TYPES, messages, sample


@given(data_type=st.sampled_from(DATA_TYPES), version=st.integers(0, 3), data=st.data())
def test_they_come_back_with_their_version(
    data_type: type, version: int, data: st.DataObject
) -> None:
    value = data.draw(messages(data_type, version))
    assert decode_embedded(data_type, encode_embedded(value, version)) == (version, value)


def test_the_bytes_are_these() -> None:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[MemberTopicPartitions(topic="t", partitions=[0, 7])], user_data=None
    )
    expected = "0001 00000001 0001 74 00000002 00000000 00000007 ffffffff"
    assert encode_embedded(assignment, 1) == bytes.fromhex(expected)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_kafka_python_reads_them(version: int) -> None:
    subscription = sample(ConsumerProtocolSubscription, version)
    data = encode_embedded(subscription, version)
    read = TWINS["ConsumerProtocolSubscription"].decode(data)
    assert (read.version, read.topics) == (version, subscription.topics)
    assert read.user_data == subscription.user_data


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    known = sample(ConsumerProtocolSubscription, 3)
    newer = b"\x00\x09" + encode_embedded(known, 3)[2:] + b"what version 9 adds"
    assert decode_embedded(ConsumerProtocolSubscription, newer) == (9, known)


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"\0\0", b"\x00\x09\0"])
def test_broken_ones_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_embedded(ConsumerProtocolSubscription, data)


def test_a_known_version_has_nothing_behind_it() -> None:
    data = encode_embedded(sample(ConsumerProtocolAssignment, 3), 3)
    with pytest.raises(MalformedMessage, match="left over"):
        decode_embedded(ConsumerProtocolAssignment, data + b"\0")
