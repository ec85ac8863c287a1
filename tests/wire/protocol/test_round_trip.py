"""What is written is what is read, for every message in every version."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.wire.kafka.protocol import MalformedMessage
from stratamq.wire.kafka.protocol.codec import decode
from tests.wire.protocol.support import CASES, Case, case_name, messages, sample, wired


def check_round_trip(case: Case, data: st.DataObject) -> None:
    message_type, version = case
    message = data.draw(messages(message_type, version))
    assert decode(message_type, version, wired(message, version)) == message


@pytest.mark.parametrize("case", CASES, ids=case_name)
@settings(max_examples=3)
@given(data=st.data())
def test_any_value_comes_back(case: Case, data: st.DataObject) -> None:
    check_round_trip(case, data)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=case_name)
@settings(max_examples=100)
@given(data=st.data())
def test_any_value_comes_back_at_length(case: Case, data: st.DataObject) -> None:
    check_round_trip(case, data)


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_a_full_message_comes_back_but_no_part_of_it_does(case: Case) -> None:
    message_type, version = case
    full = sample(message_type, version)
    data = wired(full, version)
    assert decode(message_type, version, data) == full
    for end in range(len(data)):
        with pytest.raises(MalformedMessage):
            decode(message_type, version, data[:end])
    with pytest.raises(MalformedMessage, match="left over"):
        decode(message_type, version, data + b"\0")
