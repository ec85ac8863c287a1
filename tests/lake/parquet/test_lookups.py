"""Keys, tags and times in a cold file, against a plain search of its records."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.lake.parquet._columns import hash_of
from stratamq.lake.parquet.lookups import may_hold, offsets_by_key, offsets_by_tag
from stratamq.lake.parquet.reading import ColdFile
from stratamq.lake.parquet.sinks import Footer
from stratamq.lake.parquet.sources import BytesSource
from stratamq.model.record import Record
from stratamq.model.types import TimestampMs
from stratamq.wire.kafka.records import encode_batch, read_header
from tests.lake.parquet.histories import NAME, Spec, build, histories, records_of, written
from tests.waiting import every

words = st.sampled_from([b"", b"a", b"a/b", b"b", b"\xff", b"long" * 40])
small = st.builds(
    Record,
    key=st.none() | words,
    tags=st.lists(words, max_size=3).map(tuple),
    timestamp=(st.integers(0, 60) | st.integers(-60, -2)).map(TimestampMs),
)
logs = st.lists(st.lists(small, min_size=1, max_size=5), max_size=8)


def stored(batches: list[bytes]) -> ColdFile:
    data, summary = written(batches, 150)
    return ColdFile(BytesSource(data), NAME, summary.footer)


def batches_of(log: list[list[Record]]) -> list[bytes]:
    batches, offset = [], 0
    for records in log:
        batches.append(encode_batch(records, now_ms=1, base_offset=offset))
        offset += len(records)
    return batches


@given(logs, words, st.integers(0, 45))
@settings(max_examples=30)
def test_keys_are_found_newest_first(log: list[list[Record]], key: bytes, end: int) -> None:
    file = stored(batches_of(log))
    records = [record for batch in batches_of(log) for record in records_of(batch)]
    expected = [record.offset for record in records if record.key == key and record.offset < end]
    assert list(offsets_by_key(file, key, end)) == expected[::-1]


@given(logs, words, st.integers(0, 45), st.integers(0, 45))
@settings(max_examples=30)
def test_tags_are_found_oldest_first(
    log: list[list[Record]], tag: bytes, start: int, end: int
) -> None:
    file = stored(batches_of(log))
    records = [record for batch in batches_of(log) for record in records_of(batch)]
    expected = [r.offset for r in records if tag in r.tags and start <= r.offset < end]
    assert list(offsets_by_tag(file, tag, start, end)) == expected


@given(histories)
@settings(max_examples=30)
def test_a_history_without_the_key_has_none(history: list[Spec]) -> None:
    file = stored(build(history))
    assert (
        list(offsets_by_key(file, b"\x00 never drawn, for its length of 41 bytes", 1 << 62)) == []
    )


@given(logs, st.integers(-61, 61))
@settings(max_examples=30)
def test_no_record_before_the_floor_is_young_enough(
    log: list[list[Record]], timestamp: int
) -> None:
    batches = batches_of(log)
    floor = stored(batches).floor_by_timestamp(timestamp)
    records = [record for batch in batches for record in records_of(batch)]
    assert all(record.timestamp < timestamp for record in records if record.offset < floor)
    assert floor in {0, len(records), *(read_header(batch).base_offset for batch in batches)}
    young = [read_header(batch) for batch in batches]
    first = next((h.base_offset for h in young if h.max_timestamp >= timestamp), len(records))
    assert floor == first


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_hashes_are_those_of_the_published_examples(value: bytes, expected: int) -> None:
    assert hash_of(value) == expected


def many_keys() -> tuple[bytes, Footer, list[bytes]]:
    keys = [b"key-%05d-%s" % (number, b"x" * (number % 50)) for number in range(0, 4000, 2)]
    batches = [
        encode_batch(
            [Record(b"v" * 50, key, (), (b"t" + key,)) for key in keys[first : first + 100]],
            now_ms=1,
            base_offset=first,
        )
        for first in range(0, 2000, 100)
    ]
    data, summary = written(batches, 100_000)
    return data, summary.footer, keys


def test_filters_pass_over_what_is_not_there_and_nothing_else() -> None:
    data, footer, keys = many_keys()
    file = ColdFile(BytesSource(data), NAME, footer)
    groups = range(len(file.places))
    assert len(groups) > 2
    for path, before in (("key", b""), ("tags.list.element", b"t")):
        for key in every(keys):
            assert any(may_hold(file, number, path, before + key) for number in groups)
        absent = [b"key-%05d-%s" % (n, b"x" * (n % 50)) for n in range(1, 4000, 2)]
        passed = sum(may_hold(file, n, path, before + key) for key in absent for n in groups)
        assert passed < 0.03 * len(absent)


def test_a_damaged_filter_is_not_believed() -> None:
    data, footer, keys = many_keys()
    start = len(data) - footer.size - footer.index_size
    emptied = data[:start] + bytes(footer.index_size) + data[start + footer.index_size :]
    file = ColdFile(BytesSource(emptied), NAME, footer)
    assert list(offsets_by_key(file, keys[7], 1 << 62)) == [7]
