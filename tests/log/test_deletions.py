"""Offsets deleted one by one: frames, torn ones, and the file over its life."""

from __future__ import annotations

from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from stratamq.log import names
from stratamq.log.deletions import Deletions, decode, encode
from stratamq.model.types import Offset
from tests.twins.disk import Power, SimDisk

PATH = Path("/shard/deletions")
offsets = st.integers(0, (1 << 64) - 1).map(Offset)
frames = st.lists(st.lists(offsets, min_size=1, max_size=5), max_size=8)


def disk_with_folder() -> SimDisk:
    disk = SimDisk()
    disk.make_folder(PATH.parent)
    disk.sync_folder(Path("/"))
    return disk


@given(frames)
def test_frames_come_back(given_frames: list[list[Offset]]) -> None:
    data = b"".join(map(encode, given_frames))
    found = decode(data)
    assert found.offsets == {offset for frame in given_frames for offset in frame}
    assert found.end == len(data)
    assert not found.damaged


@given(frames, st.data())
def test_a_torn_end_leaves_a_prefix(given_frames: list[list[Offset]], data: st.DataObject) -> None:
    encoded = [encode(frame) for frame in given_frames]
    size = data.draw(st.integers(0, sum(map(len, encoded))))
    found = decode(b"".join(encoded)[:size])
    whole, end = 0, 0
    while whole < len(encoded) and end + len(encoded[whole]) <= size:
        end += len(encoded[whole])
        whole += 1
    assert found.end == end
    assert found.offsets == {offset for frame in given_frames[:whole] for offset in frame}
    assert not found.damaged


@given(frames, st.data())
def test_damage_costs_one_frame(given_frames: list[list[Offset]], data: st.DataObject) -> None:
    encoded = [bytearray(encode(frame)) for frame in given_frames]
    if not encoded:
        return
    hit = data.draw(st.integers(0, len(encoded) - 1))
    at = data.draw(st.integers(0, len(encoded[hit]) - 1))
    encoded[hit][at] ^= 1 << data.draw(st.integers(0, 7))
    found = decode(b"".join(encoded))
    kept = [frame for number, frame in enumerate(given_frames) if number != hit]
    assert found.offsets == {offset for frame in kept for offset in frame}
    start = sum(map(len, encoded[:hit]))
    assert found.damaged == ([start] if hit < len(encoded) - 1 else [])


@given(st.binary(max_size=200))
def test_no_bytes_break_it(data: bytes) -> None:
    found = decode(data)
    assert 0 <= found.end <= len(data)
    assert all(0 <= position < found.end for position in found.damaged)


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "forget", "reopen", "crash"]), st.sets(st.integers(0, 9)))
    )
)
def test_a_life(steps: list[tuple[str, set[int]]]) -> None:
    """Whatever happens: added and not forgotten is there."""
    disk, expected = disk_with_folder(), set[int]()
    marks = Deletions(disk, PATH)
    for kind, numbers in steps:
        if kind == "add":
            marks.add(map(Offset, numbers))
            expected |= numbers
        elif kind == "forget":
            marks.forget(numbers.__contains__)
            expected -= numbers
        else:
            if kind == "crash":
                disk = disk.after_crash(Power.LOST, Random(0))
            marks = Deletions(disk, PATH)
        assert set(marks.offsets) == expected
        assert not marks.damage


def test_adding_what_is_known_costs_nothing() -> None:
    disk = disk_with_folder()
    marks = Deletions(disk, PATH)
    marks.add([Offset(3)])
    calls = len(disk.calls)
    marks.add([Offset(3)])
    marks.add([])
    marks.forget(lambda offset: offset == 9)
    assert len(disk.calls) == calls


def test_one_flipped_bit_costs_few_marks_and_the_file_is_kept() -> None:
    """Also when all marks were written again at once, as `forget` does."""
    disk = SimDisk()
    disk.make_folder(PATH.parent)
    marks = Deletions(disk, PATH)
    marks.add(map(Offset, range(5000)))
    marks.forget(lambda offset: offset < 10)
    whole = disk.content(PATH)
    disk.damage(PATH, lambda content: content.__setitem__(-1, content[-1] ^ 1))
    again = Deletions(disk, PATH)
    assert again.damage
    assert len(again.offsets) > 4000
    assert len(disk.content(PATH.with_name(PATH.name + names.DAMAGED))) == len(whole)
    again.add([Offset(9)])
    assert not Deletions(disk, PATH).damage
