"""kafka-python 3, a third implementation, must agree with ours where it has the message."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.wire.kafka.protocol.codec import decode
from stratamq.wire.kafka.protocol.schema import message_of
from tests.wire.protocol.kafka_python_twin import (
    TWINS,
    kafka_python_decode,
    kafka_python_encode,
    narrow,
    to_dict,
)
from tests.wire.protocol.support import CASES, OURS_FROM, TYPES, Case, case_name, messages, wired

SHARED = [case for case in CASES if case[0].__name__ in TWINS]


def check_both_ways(case: Case, data: st.DataObject) -> None:
    message_type, version = case
    message = data.draw(messages(message_type, version, narrow))
    expected = to_dict(message, TWINS[message_type.__name__]._struct, version)
    assert kafka_python_decode(message_type, version, wired(message, version)) == expected
    assert decode(message_type, version, kafka_python_encode(message, version)) == message


def test_what_is_missing_there() -> None:
    kafkas = [each for each in TYPES if message_of(each).key < OURS_FROM]
    missing = [each.__name__ for each in kafkas if each.__name__ not in TWINS]
    assert missing == [
        "UnregisterBrokerRequest",
        "UnregisterBrokerResponse",
        "ConsumerGroupHeartbeatRequest",
        "ConsumerGroupHeartbeatResponse",
        "ConsumerGroupDescribeRequest",
        "ConsumerGroupDescribeResponse",
    ]


@pytest.mark.parametrize("case", SHARED, ids=case_name)
@settings(max_examples=3)
@given(data=st.data())
def test_each_reads_what_the_other_writes(case: Case, data: st.DataObject) -> None:
    check_both_ways(case, data)


@pytest.mark.long
@pytest.mark.parametrize("case", SHARED, ids=case_name)
@settings(max_examples=100)
@given(data=st.data())
def test_each_reads_what_the_other_writes_at_length(case: Case, data: st.DataObject) -> None:
    check_both_ways(case, data)
