"""Keys, tags and times in a cold file, against a plain search of its records."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.lake.parquet import offsets_by_key, offsets_by_tag
from stratamq.model.record import Record
from stratamq.model.types import TimestampMs
from stratamq.wire.kafka.records import encode_batch, read_header
from tests.lake.parquet.histories import Spec, build, histories, opened, records_of, written

words = st.sampled_from([b"", b"a", b"a/b", b"b", b"\xff", b"long" * 40])
small = st.builds(
    Record,
    key=st.none() | words,
    tags=st.lists(words, max_size=3).map(tuple),
    timestamp=st.integers(0, 60).map(TimestampMs),
)
logs = st.lists(st.lists(small, min_size=1, max_size=5), max_size=8)


def batches_of(log: list[list[Record]]) -> list[bytes]:
    batches, offset = [], 0
    for records in log:
        batches.append(encode_batch(records, now_ms=1, base_offset=offset))
        offset += len(records)
    return batches


@given(logs, words, st.integers(0, 45))
@settings(max_examples=30)
def test_keys_are_found_newest_first(log: list[list[Record]], key: bytes, end: int) -> None:
    file = opened(written(batches_of(log), 150)[0])
    records = [record for batch in batches_of(log) for record in records_of(batch)]
    expected = [record.offset for record in records if record.key == key and record.offset < end]
    assert list(offsets_by_key(file, key, end)) == expected[::-1]


@given(logs, words, st.integers(0, 45), st.integers(0, 45))
@settings(max_examples=30)
def test_tags_are_found_oldest_first(
    log: list[list[Record]], tag: bytes, start: int, end: int
) -> None:
    file = opened(written(batches_of(log), 150)[0])
    records = [record for batch in batches_of(log) for record in records_of(batch)]
    expected = [r.offset for r in records if tag in r.tags and start <= r.offset < end]
    assert list(offsets_by_tag(file, tag, start, end)) == expected


@given(histories)
@settings(max_examples=30)
def test_a_history_without_the_key_has_none(history: list[Spec]) -> None:
    file = opened(written(build(history))[0])
    assert (
        list(offsets_by_key(file, b"\x00 never drawn, for its length of 41 bytes", 1 << 62)) == []
    )


@given(logs, st.integers(-1, 61))
@settings(max_examples=30)
def test_no_record_before_the_floor_is_young_enough(
    log: list[list[Record]], timestamp: int
) -> None:
    batches = batches_of(log)
    floor = opened(written(batches, 150)[0]).floor_by_timestamp(timestamp)
    records = [record for batch in batches for record in records_of(batch)]
    assert all(record.timestamp < timestamp for record in records if record.offset < floor)
    assert floor in {0, len(records), *(read_header(batch).base_offset for batch in batches)}
    young = [read_header(batch) for batch in batches]
    first = next((h.base_offset for h in young if h.max_timestamp >= timestamp), len(records))
    assert floor == first
