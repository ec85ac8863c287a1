"""What the declarations mean: versions, defaults, nulls, tags."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stratamq.wire.kafka.protocol import MalformedMessage, UnsendableValue
from stratamq.wire.kafka.protocol.codec import decode, encode, source
from stratamq.wire.kafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    ScramCredentialUpsertion,
)
from stratamq.wire.kafka.protocol.schema import (
    BYTES,
    INT8,
    INT16,
    INT32,
    RECORDS,
    STRING,
    UUID,
    Buffer,
    array,
    request,
    struct,
    wire,
)


@struct
class Part:
    number: int = wire(INT8)


@request(key=1000, versions="0-3", flexible="2+")
class Thing:
    """One field of each kind that has a rule of its own."""

    name: str = wire(STRING)
    note: str | None = wire(STRING, nullable="1+", default=None)
    added: int = wire(INT16, versions="1+", default=-1)
    hint: int = wire(INT16, versions="1+", default=-1, ignorable=True)
    numbers: Sequence[int] = wire(array(INT32), versions="0-2", default=())
    part: Part | None = wire(Part, versions="2+", nullable=True, default=None)
    first: int = wire(INT8, tag=0, versions="2+", default=5)
    second: Sequence[Part] = wire(array(Part), tag=1, versions="3+", default=())
    third: Part | None = wire(Part, tag=300, versions="3+", default=None)


def wired(message: object, version: int) -> str:
    return b"".join(encode(message, version)).hex(" ")


def unwired(hexed: str, version: int) -> Thing:
    return decode(Thing, version, bytes.fromhex(hexed))


# -- versions and defaults -------------------------------------------------------------------------


def test_a_field_outside_its_versions_takes_its_default() -> None:
    assert unwired("0001 61 0000 00000001 00000009", 0) == Thing(name="a", note="", numbers=[9])
    assert unwired("02 61 00 0000 0000 ff 00", 3) == Thing(name="a", added=0, hint=0)


def test_defaults_of_arrays_are_not_shared() -> None:
    one, other = Thing(name="a"), Thing(name="b")
    assert isinstance(one.numbers, list)
    one.numbers.append(1)
    assert other.numbers == []


def test_what_a_version_cannot_carry_is_refused_unless_it_is_ignorable() -> None:
    with pytest.raises(UnsendableValue, match=r"Thing v0 cannot be sent: added is not in"):
        encode(Thing(name="a", note="", added=1), 0)
    with pytest.raises(UnsendableValue, match="numbers is not in this version"):
        encode(Thing(name="a", numbers=[1]), 3)
    with pytest.raises(UnsendableValue, match="third is not in this version"):
        encode(Thing(name="a", third=Part(number=1)), 2)
    assert wired(Thing(name="a", note="", hint=7), 0) == "00 01 61 00 00 00 00 00 00"


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (Thing(name=None, note=""), "name"),  # type: ignore[arg-type]
        (Thing(name="a", note=None), "note"),
        (Thing(name="a", note="", numbers=None), "numbers"),  # type: ignore[arg-type]
        (Thing(name="a", note="", numbers=[1 << 31]), "numbers|packers"),
        (Thing(name="a" * (1 << 15), note=""), "name|pack_h"),
        (Thing(name="\ud800", note=""), "name"),
    ],
    ids=["null", "null-in-v0", "null-array", "too-big", "too-long", "surrogate"],
)
def test_a_value_that_does_not_fit_is_refused(message: Thing, named: str) -> None:
    with pytest.raises(UnsendableValue, match=rf"Thing v0 cannot be sent: .*`.*({named})"):
        encode(message, 0)


def test_a_message_has_no_other_versions() -> None:
    with pytest.raises(ValueError, match="Thing has versions 0-3, not 4"):
        encode(Thing(name="a"), 4)
    with pytest.raises(ValueError, match="not -1"):
        decode(Thing, -1, b"")


# -- nulls and lengths -----------------------------------------------------------------------------


def test_null_is_read_only_where_it_may_be() -> None:
    assert unwired("0001 61 ffff 0000 0000 00000000", 1).note is None
    name, numbers = "ffff ffff 0000 0000 00000000", "0001 61 ffff 0000 0000 ffffffff"
    for hexed in (name, numbers):
        with pytest.raises(MalformedMessage, match="null"):
            unwired(hexed, 1)
    with pytest.raises(MalformedMessage, match="Thing v0: a null"):
        unwired("0001 61 ffff 00000000", 0)


def test_other_negative_lengths_are_not_null() -> None:
    with pytest.raises(MalformedMessage, match="negative"):
        unwired("0001 61 fffe 0000 0000 00000000", 1)
    with pytest.raises(MalformedMessage, match="negative"):
        unwired("0001 61 ffff 0000 0000 fffffffe", 1)


def test_a_nullable_struct_is_marked() -> None:
    present = Thing(name="a", added=0, hint=0, part=Part(number=7))
    assert wired(present, 3) == "02 61 00 00 00 00 00 01 07 00 00"
    assert unwired("02 61 00 0000 0000 01 07 00 00", 3) == present
    for mark in ("00", "02", "fe"):
        with pytest.raises(MalformedMessage, match="neither null nor present"):
            unwired(f"02 61 00 0000 0000 {mark} 07 00 00", 3)


def test_strings_must_be_utf_8() -> None:
    with pytest.raises(MalformedMessage, match=r"Thing v3: a string .* is not UTF-8"):
        unwired("02 ff 00 0000 0000 ff 00", 3)


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


@pytest.mark.parametrize("varint", ["ffffffff7f", "ffffffff10", "8080808080", "ffffffffffffffff7f"])
def test_a_varint_over_32_bits_is_refused(varint: str) -> None:
    with pytest.raises(MalformedMessage, match="over 32 bits"):
        unwired(varint + "00" * 20, 3)


# -- tagged fields ---------------------------------------------------------------------------------

HEAD = "02 61 00 0000 0000 ff "


def test_tagged_fields_are_sent_only_when_they_differ() -> None:
    bare = Thing(name="a", added=0, hint=0)
    assert wired(bare, 3) == bytes.fromhex(HEAD + "00").hex(" ")
    full = Thing(name="a", added=0, hint=0, first=6, second=[Part(number=1)], third=Part(number=2))
    tags = "03  00 01 06  01 03 02 01 00  ac02 02 02 00"
    assert wired(full, 3) == bytes.fromhex(HEAD + tags).hex(" ")
    assert unwired(HEAD + tags, 3) == full


def test_unknown_tagged_fields_are_passed_over() -> None:
    expected = Thing(name="a", added=0, hint=0, first=6)
    assert unwired(HEAD + "03  00 01 06  07 02 ffff  8001 00", 3) == expected
    inner = "02 61 00 0000 0000 01 07  01 09 03 aabbcc  01 63 01 ff"
    assert unwired(inner, 3) == Thing(name="a", added=0, hint=0, part=Part(number=7))


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ("02  07 00  07 00", "tag 7 follows tag 7"),
        ("02  07 00  00 01 06", "tag 0 follows tag 7"),
        ("02  00 01 06  00 01 06", "tag 0 follows tag 0"),
        ("01  00 02 06 00", "should end at byte"),
        ("01  00 00", "ends early|should end"),
        ("01  07 05 00", "past the end"),
        ("ffffffff0f  07 00", "more than can be"),
        ("02  07 00", "more than can be|ends early"),
    ],
)
def test_broken_tagged_fields_are_refused(tags: str, reason: str) -> None:
    with pytest.raises(MalformedMessage, match=reason):
        unwired(HEAD + tags, 3)
    inner = f"02 61 00 0000 0000 01 07 {tags}"  # Part knows no tags: they are passed over by size
    if "06" not in tags:
        with pytest.raises(MalformedMessage):
            unwired(inner, 3)


# -- records and bytes -----------------------------------------------------------------------------


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


# -- the rest --------------------------------------------------------------------------------------


def test_secrets_stay_out_of_logs() -> None:
    assert "hunter2" not in repr(SaslAuthenticateRequest(auth_bytes=b"\0me\0hunter2"))
    upsertion = ScramCredentialUpsertion(
        name="me", mechanism=1, iterations=4096, salt=b"hunter2", salted_password=b"hunter2"
    )
    assert "hunter2" not in repr(upsertion)


def test_the_generated_source_can_be_read() -> None:
    text = source(Thing, 3)
    compile(text, "generated", "exec")
    assert "def decode(buf, pos, room):" in text
    assert "def encode(m, head):" in text
    assert "o_1.name = " in text
