"""What the declarations mean: versions, defaults, nulls, tagged fields."""

from __future__ import annotations

import pytest

from stratamq.wire.kafka.protocol import MalformedMessage, UnsendableValue
from stratamq.wire.kafka.protocol.codec import decode, encode, source
from tests.wire.protocol.thing import Part, Thing, unwired, wired

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
        (Thing(name="a", note="", second=None), "second"),  # type: ignore[arg-type]
    ],
    ids=["null", "null-in-v0", "null-array", "too-big", "too-long", "surrogate", "null-absent"],
)
def test_a_value_that_does_not_fit_is_refused(message: Thing, named: str) -> None:
    with pytest.raises(UnsendableValue, match=rf"Thing v0 cannot be sent: .*`.*({named})"):
        encode(message, 0)


def test_a_tagged_array_may_be_empty_but_not_null() -> None:
    with pytest.raises(UnsendableValue, match="second"):
        encode(Thing(name="a", second=None), 3)  # type: ignore[arg-type]


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


@pytest.mark.parametrize(
    ("hexed", "version"),
    [
        ("00ff 61 ffff 0000 0000 00000000", 1),
        ("0001 61 0064 0000 0000 00000000", 1),
        ("03 61", 3),
        ("02 61 64 0000 0000 ff 00", 3),
    ],
    ids=["string", "nullable-string", "compact", "nullable-compact"],
)
def test_a_length_past_the_end_is_refused_as_such(hexed: str, version: int) -> None:
    with pytest.raises(MalformedMessage, match="past the end"):
        unwired(hexed, version)


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


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ("02  07 00  07 00", "tag 7 follows tag 7"),
        ("01  07 05 00", "past the end"),
        ("7f  07 00", "127 elements .* more than can be"),
        ("ffffffff0f  07 00", "4294967295 elements .* more than can be"),
    ],
)
def test_broken_unknown_tagged_fields_are_refused(tags: str, reason: str) -> None:
    """A Part knows no tags: all of them are passed over by their sizes."""
    with pytest.raises(MalformedMessage, match=reason):
        unwired(f"02 61 00 0000 0000 01 07 {tags}", 3)


# -- the rest --------------------------------------------------------------------------------------


def test_the_generated_source_can_be_read() -> None:
    text = source(Thing, 3)
    compile(text, "generated", "exec")
    assert "def decode(buf, pos, elements_left):" in text
    assert "def encode(m, head):" in text
    assert "o_1.name = " in text


def test_messages_are_compared_and_shown_by_their_fields() -> None:
    thing = Thing(name="a", numbers=[1])
    assert thing == Thing(name="a", numbers=[1])
    assert thing != Thing(name="a", numbers=[2])
    other: object = Part(number=1)
    assert thing != other
    assert repr(Part(number=1)) == "Part(number=1)"
    assert repr(thing).startswith("Thing(name='a', note=None, added=-1,")
    with pytest.raises(TypeError, match="unhashable"):
        hash(thing)


def test_a_field_without_a_default_must_be_given() -> None:
    with pytest.raises(TypeError, match="name"):
        Thing()  # type: ignore[call-arg]
