"""Values with a treatment of their own: records, UUIDs, secrets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stratamq.wire.kafka.protocol import UnsendableValue
from stratamq.wire.kafka.protocol.codec import decode, encode
from stratamq.wire.kafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    ScramCredentialUpsertion,
)
from stratamq.wire.kafka.protocol.schema import (
    BYTES,
    INT8,
    RECORDS,
    UUID,
    Buffer,
    array,
    request,
    struct,
    wire,
)


@struct
class Load:
    records: Buffer | None = wire(RECORDS, nullable=True)
    mark: int = wire(INT8)


@request(key=1001, versions="0-1", flexible="1+")
class Carrier:
    topic_id: bytes = wire(UUID)
    note: bytes = wire(BYTES)
    loads: Sequence[Load] = wire(array(Load))


@pytest.mark.parametrize("version", [0, 1])
def test_records_are_views_when_read_and_not_copied_when_written(version: int) -> None:
    large, small = b"r" * 5000, b"s" * 10
    loads = [Load(records=each, mark=1) for each in (large, small, None, large)]
    buffers = encode(Carrier(topic_id=bytes(16), note=b"n", loads=loads), version, b"head")
    assert [each for each in buffers if each is large] == [large, large]
    assert len(buffers) == 5
    assert bytes(buffers[0]).startswith(b"head")
    frame = b"".join(buffers)
    read = decode(Carrier, version, frame, 4)
    assert [load.records for load in read.loads] == [large, small, None, large]
    assert isinstance(read.loads[0].records, memoryview)
    assert read.loads[0].records.obj is frame
    assert type(read.note) is bytes


def test_records_may_be_views_when_written_too() -> None:
    view = memoryview(b"x" * 6000)[100:5900]
    carrier = Carrier(topic_id=bytes(16), note=b"", loads=[Load(records=view, mark=1)])
    assert decode(Carrier, 1, b"".join(encode(carrier, 1))) == carrier


@pytest.mark.parametrize("length", [0, 15, 17])
def test_a_uuid_has_16_bytes(length: int) -> None:
    with pytest.raises(UnsendableValue, match="not a UUID"):
        encode(Carrier(topic_id=bytes(length), note=b"", loads=[]), 1)


def test_secrets_stay_out_of_logs() -> None:
    assert "hunter2" not in repr(SaslAuthenticateRequest(auth_bytes=b"\0me\0hunter2"))
    upsertion = ScramCredentialUpsertion(
        name="me", mechanism=1, iterations=4096, salt=b"hunter2", salted_password=b"hunter2"
    )
    assert "hunter2" not in repr(upsertion)
