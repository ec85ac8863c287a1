"""History against the log it was made from: every read, over random histories."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.engine.tiered import History
from stratamq.meta.tier.files import TierFile
from stratamq.model.errors import CorruptRecord, OffsetOutOfRange
from stratamq.model.types import Offset, TimestampMs
from stratamq.tiering.cold.ahead import Ahead
from stratamq.tiering.cold.history import ShardHistory
from stratamq.tiering.cold.limits import ColdLimits
from stratamq.tiering.cold.objects import Bridge, FolderObjects
from stratamq.tiering.cold.reads import ColdReads
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions
from stratamq.tiering.stores.store import Store
from stratamq.wire.kafka.records import iter_batches, read_header
from tests.lake.parquet.histories import Spec, build, histories, meaning, records_of
from tests.tiering.cold.files import SHARD, Folder, plain, store_file

FORMATS = ("parquet", "log", "both")
EVERYTHING = Offset(1 << 62)
Check = Callable[[ShardHistory, list[TierFile]], None]


async def with_history(
    parts: Sequence[Sequence[bytes]], formats: Sequence[str], check: Check
) -> None:
    """A file for each part; and what is to be seen of them."""
    with tempfile.TemporaryDirectory() as name:
        root, limits = Path(name), ColdLimits()
        bridge, ahead = Bridge(asyncio.get_running_loop(), 1000), Ahead(1, 8)
        cold = ColdReads(FolderObjects(root), bridge, ahead, limits)
        files = [
            await store_file(Folder(root), part, formats=format_)
            for part, format_ in zip(parts, formats, strict=True)
        ]
        history = cold.history(SHARD)
        history.replace(reversed(files))
        try:
            await asyncio.to_thread(check, history, files)
        finally:
            await cold.close()


GAP_MAX = 1 << 20
"""Within a segment offsets are within 2 GiB of its first: it rolls before."""

segments = histories.filter(bool).map(
    lambda history: [spec._replace(gap=min(spec.gap, GAP_MAX)) for spec in history]
)


def cut(batches: list[bytes], places: list[int]) -> list[list[bytes]]:
    """The batches, in several files."""
    stops = sorted({place % (len(batches) + 1) for place in places} | {len(batches)})
    parts = [batches[a:b] for a, b in zip([0, *stops], stops, strict=False)]
    return [part for part in parts if part]


def reading(history: History, offset: int, max_bytes: int, end: int) -> list[bytes]:
    data = history.read(Offset(offset), max_bytes, Offset(end))
    return [bytes(batch) for _, batch in iter_batches(data)]


def as_expected(found: list[bytes], wanted: list[bytes], exact: bool) -> None:
    if exact:
        assert found == wanted
    else:
        assert [meaning(batch) for batch in found] == [meaning(batch) for batch in wanted]


@settings(max_examples=25, deadline=None)
@given(
    segments,
    st.lists(st.integers(0, 12), max_size=3),
    st.lists(st.sampled_from(FORMATS), min_size=13, max_size=13),
    st.integers(0, 1 << 30).map(random.Random),
)
def test_every_read_is_that_of_the_log(
    history: list[Spec], places: list[int], formats: list[str], rng: random.Random
) -> None:
    batches = build(history)
    parts = cut(batches, places)
    headers = [read_header(batch) for batch in batches]

    def check(cold: ShardHistory, files: list[TierFile]) -> None:
        assert [(s.base_offset, s.end_offset, s.active) for s in cold.segments()] == [
            (file.base_offset, file.end_offset, False) for file in files
        ]
        exact = set(formats[: len(parts)]) == {"log"}
        offset, found = 0, []
        while some := reading(cold, offset, 300, EVERYTHING):
            found += some
            offset = read_header(some[-1]).next_offset
        as_expected(found, batches, exact)
        for _ in range(5):
            near = rng.choice(headers)
            offset = max(rng.randint(near.base_offset - 3, near.next_offset + 3), 0)
            end = rng.choice([near.next_offset, near.last_offset, EVERYTHING])
            wanted = [b for b, h in zip(batches, headers, strict=True) if h.last_offset >= offset]
            fits = wanted and read_header(wanted[0]).last_offset < end
            as_expected(reading(cold, offset, 1, end), wanted[:1] if fits else [], exact)

    asyncio.run(with_history(parts, formats[: len(parts)], check))


@settings(max_examples=20, deadline=None)
@given(
    segments,
    st.lists(st.integers(0, 12), max_size=3),
    st.lists(st.sampled_from(FORMATS), min_size=13, max_size=13),
)
def test_look_ups_give_none_too_few(
    history: list[Spec], places: list[int], formats: list[str]
) -> None:
    batches = build(history)
    parts = cut(batches, places)
    rows = [
        record
        for batch in batches
        if not read_header(batch).is_control and read_header(batch).record_count
        for record in records_of(batch)
    ]
    stamps = {record.timestamp for record in rows} | {-1, 0, 1 << 62}

    def check(cold: ShardHistory, files: list[TierFile]) -> None:
        middle = Offset(rows[len(rows) // 2].offset) if rows else Offset(0)
        for key in {record.key for record in rows if record.key is not None}:
            for end in (middle, EVERYTHING):
                wanted = [r.offset for r in rows if r.key == key and r.offset < end]
                assert list(cold.offsets_by_key(key, end)) == wanted[::-1]
        for tag in {tag for record in rows for tag in record.tags}:
            for start, end in ((0, middle), (middle, EVERYTHING)):
                wanted = [r.offset for r in rows if tag in r.tags and start <= r.offset < end]
                assert list(cold.offsets_by_tag(tag, Offset(start), end)) == wanted
        assert list(cold.offsets_by_key(b"not there at all" * 4, EVERYTHING)) == []
        for stamp in stamps:
            floor = cold.floor_by_timestamp(TimestampMs(stamp))
            below = [
                h for h in map(read_header, batches) if floor is None or h.next_offset <= floor
            ]
            assert all(header.max_timestamp < stamp for header in below)

    asyncio.run(with_history(parts, formats[: len(parts)], check))


async def opened(
    tmp_path: Path, *parts: list[bytes], formats: str = "parquet"
) -> tuple[ColdReads, Store, ShardHistory, list[TierFile]]:
    store = await open_store(StoreOptions(url=(tmp_path / "a # b %41" / "store").as_uri()))
    cold = await ColdReads.open(store, tmp_path, ColdLimits())
    files = [await store_file(store, part, formats=formats) for part in parts]
    history = cold.history(SHARD)
    history.replace(files)
    return cold, store, history, files


@pytest.mark.parametrize("formats", FORMATS)
async def test_offsets_between_files_and_behind_them(tmp_path: Path, formats: str) -> None:
    first, second = plain(3), plain(3, 1000)
    cold, store, history, _ = await opened(tmp_path, first, second, formats=formats)
    read = asyncio.to_thread
    gap = Offset(500)
    assert await read(history.read, gap, 1, EVERYTHING) == second[0]
    assert await read(history.read, gap, 1, Offset(1000)) == b""
    behind = Offset(read_header(second[-1]).next_offset)
    assert await read(history.read, behind, 1, EVERYTHING) == b""
    assert cold.history(SHARD).segments() == ()
    assert await read(cold.history(SHARD).read, gap, 1, EVERYTHING) == b""
    await cold.close()
    await store.close()


async def test_files_that_are_not_final_are_not_history(tmp_path: Path) -> None:
    first, second = plain(2), plain(2, 1000)
    cold, store, history, files = await opened(tmp_path, first, second)
    history.replace([files[0], replace(files[1], final=False)])
    assert len(history.segments()) == 1
    assert await asyncio.to_thread(history.read, Offset(900), 1, EVERYTHING) == b""
    await cold.close()
    await store.close()


@pytest.mark.parametrize("formats", FORMATS)
async def test_a_file_that_is_dropped_is_out_of_range_or_passed_over(
    tmp_path: Path, formats: str
) -> None:
    first, second = plain(2), plain(2, 1000)
    cold, store, history, files = await opened(tmp_path, first, second, formats=formats)
    for target in files[0].objects:
        await store.delete(target.key)
    with pytest.raises(CorruptRecord, match="missing") as damage:
        await asyncio.to_thread(history.read, Offset(0), 1, EVERYTHING)
    assert damage.value.next_offset == files[0].end_offset, "it is still said to be there"

    files_seen = history._files

    def dropped_meanwhile() -> bytes:
        """As a reader that had the old list in its hands."""
        look = history._read

        def late(_: object, *rest: object) -> bytes:
            history.replace(files[1:])
            history._read = look  # type: ignore[method-assign]
            return look(files_seen, *rest)  # type: ignore[arg-type]

        history._read = late  # type: ignore[method-assign,assignment]
        return history.read(Offset(0), 1, EVERYTHING)

    with pytest.raises(OffsetOutOfRange) as error:
        await asyncio.to_thread(dropped_meanwhile)
    assert error.value.start == 1000
    assert list(await asyncio.to_thread(lambda: list(history.offsets_by_key(b"k", EVERYTHING))))
    await cold.close()
    await store.close()


@pytest.mark.parametrize("formats", FORMATS)
async def test_a_reader_at_a_file_that_goes_away_goes_on(tmp_path: Path, formats: str) -> None:
    first, second = plain(20), plain(2, 1000)
    cold, store, history, files = await opened(tmp_path, first, second, formats=formats)
    assert await asyncio.to_thread(history.read, Offset(0), 1, EVERYTHING) == first[0]
    for target in files[0].objects:
        await store.delete(target.key)
    history.replace(files[1:])
    assert await asyncio.to_thread(history.read, Offset(5), 1, EVERYTHING) == second[0]
    await cold.close()
    await store.close()


@pytest.mark.parametrize("formats", ["parquet", "log"])
async def test_damage_in_the_store_is_named_and_the_rest_is_read(
    tmp_path: Path, formats: str
) -> None:
    batches = plain(12)
    cold, store, history, files = await opened(tmp_path, batches, formats=formats)
    path = tmp_path / "a # b %41" / "store" / files[0].objects[0].key
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    found, damaged, offset = [], 0, 0
    while offset < files[0].end_offset:
        try:
            some = await asyncio.to_thread(reading, history, offset, 1, EVERYTHING)
        except CorruptRecord as error:
            assert error.next_offset > offset  # noqa: PT017
            damaged, offset = damaged + 1, error.next_offset
            continue
        found += some
        offset = read_header(some[-1]).next_offset
    assert damaged
    assert found
    assert set(found) <= set(batches)
    await cold.close()
    await store.close()


async def test_an_object_of_another_size_is_damage(tmp_path: Path) -> None:
    cold, store, history, files = await opened(tmp_path, plain(3))
    path = tmp_path / "a # b %41" / "store" / files[0].objects[0].key
    os.truncate(path, 100)
    with pytest.raises(CorruptRecord, match="100 bytes instead of"):
        await asyncio.to_thread(history.read, Offset(0), 1, EVERYTHING)
    await cold.close()
    await store.close()


async def test_a_wrong_index_is_not_used(tmp_path: Path) -> None:
    batches = plain(12)
    cold, store, history, files = await opened(tmp_path, batches, formats="log")
    for target in files[0].objects[1:]:
        path = tmp_path / "a # b %41" / "store" / target.key
        path.write_bytes(b"\0" * (target.size - 1) + b"\x40")
    last = read_header(batches[-1])
    assert await asyncio.to_thread(history.read, last.base_offset, 1, EVERYTHING) == batches[-1]
    floor = await asyncio.to_thread(history.floor_by_timestamp, TimestampMs(5))
    assert floor == files[0].base_offset
    await cold.close()
    await store.close()
