"""kio, a second implementation made from Kafka's own schemas, must agree with ours."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode

from stratamq.wire.kafka.protocol.codec import decode
from stratamq.wire.kafka.protocol.errors import ErrorCode
from stratamq.wire.kafka.protocol.schema import Array, fields_of, message_of
from tests.wire.protocol.kio_twin import (
    from_kio,
    kio_decode,
    kio_encode,
    kio_shape,
    narrow,
    our_shape,
    twin_of,
)
from tests.wire.protocol.support import KAFKAS, Case, case_name, messages, wired


def check_both_ways(case: Case, data: st.DataObject) -> None:
    message_type, version = case
    message = data.draw(messages(message_type, version, narrow))
    theirs = kio_decode(message_type, version, wired(message, version))
    expected = without_default_structs(message, version)
    assert without_default_structs(from_kio(theirs, message_type, version), version) == expected
    ours: object = decode(message_type, version, kio_encode(theirs))
    assert without_default_structs(ours, version) == expected


def without_default_structs(message: Any, version: int) -> Any:
    """A tagged struct of defaults means the same as none, and kio leaves it out."""
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if value is None or version not in field.versions:
            continue
        if isinstance(field.kind, Array) and isinstance(field.kind.element, type):
            for each in value:
                without_default_structs(each, version)
        elif isinstance(field.kind, type):
            without_default_structs(value, version)
            if field.tag is not None and value == field.kind():
                setattr(message, field.name, None)
    return message


@pytest.mark.parametrize("case", KAFKAS, ids=case_name)
def test_fields_types_nulls_and_tags_are_the_same(case: Case) -> None:
    twin = twin_of(*case)
    assert our_shape(*case) == kio_shape(twin)
    assert (case[1] in message_of(case[0]).flexible) is twin.__flexible__


@pytest.mark.parametrize("case", KAFKAS, ids=case_name)
@settings(max_examples=3)
@given(data=st.data())
def test_each_reads_what_the_other_writes(case: Case, data: st.DataObject) -> None:
    check_both_ways(case, data)


@pytest.mark.long
@pytest.mark.parametrize("case", KAFKAS, ids=case_name)
@settings(max_examples=100)
@given(data=st.data())
def test_each_reads_what_the_other_writes_at_length(case: Case, data: st.DataObject) -> None:
    check_both_ways(case, data)


def test_the_error_codes_are_the_same() -> None:
    ours = {(error.name.lower(), int(error), error.retriable) for error in ErrorCode}
    assert ours == {(error.name, int(error), error.retriable) for error in KioErrorCode}
