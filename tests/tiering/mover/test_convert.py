"""Segments into files: everything that may be in them, and nothing else."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.lake.parquet.reading import ColdFile
from stratamq.lake.parquet.sinks import Footer
from stratamq.lake.parquet.sources import FileSource
from stratamq.model.errors import CorruptBatch, InvalidConfig
from stratamq.model.record import Record
from stratamq.model.transaction import AbortedTxn
from stratamq.model.types import Offset, TimestampMs
from stratamq.tiering.converter.convert import convert
from stratamq.tiering.converter.requests import (
    Conversion,
    ConversionFailure,
    ConversionProgress,
    Converted,
    FileSums,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)
from stratamq.wire.kafka.records import encode_batch, iter_batches, read_header
from tests.lake.parquet.histories import Spec, build, histories, meaning, records_of

FAR = Offset(1 << 62)


def batches_of(path: Path, made: Converted, *, recompressed: bool = False) -> list[bytes]:
    """What comes back out of a Parquet file."""
    assert made.parquet_end
    source = FileSource(path)
    file = ColdFile(source, path.name, Footer(*made.parquet_end), recompressed=recompressed)
    found, offset = [], 0
    while data := file.read(Offset(offset), 1 << 30, FAR):
        found += [bytes(batch) for _, batch in iter_batches(data)]
        offset = read_header(found[-1]).next_offset
    source.close()
    return found


def all_records(batches: list[bytes]) -> dict[int, Record]:
    return {
        record.offset: record
        for batch in batches
        if not read_header(batch).is_control
        for record in records_of(batch)
    }


@settings(max_examples=40)
@given(history=histories, data=st.data())
def test_what_is_deleted_or_outside_is_not_in_the_file(
    history: list[Spec], data: st.DataObject
) -> None:
    batches = build(history)
    records = all_records(batches)
    edges = [0, *(read_header(one).base_offset for one in batches), *records, 1 << 40]
    deleted = data.draw(st.sets(st.sampled_from(sorted(records)))) if records else set()
    base, end = sorted(data.draw(st.tuples(st.sampled_from(edges), st.sampled_from(edges))))
    start = data.draw(st.just(0) | st.sampled_from(edges))
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "a.log"), Path(folder, "a.parquet")
        source.write_bytes(b"".join(batches))
        raw = Path(folder, "copy.log")
        made = convert(
            Conversion(
                source=source,
                parquet=target,
                log=raw,
                partition=7,
                base_offset=Offset(base),
                end_offset=Offset(end),
                start=Offset(start),
                deleted=tuple(map(Offset, sorted(deleted))),
            )
        )
        back = batches_of(target, made)
        copied = raw.read_bytes()
        assert made.log == FileSums(len(copied), crc32c(copied))
        assert made.parquet == FileSums(target.stat().st_size, crc32c(target.read_bytes()))
    first = max(base, start)
    expected = {
        offset: record
        for offset, record in records.items()
        if first <= offset < end and offset not in deleted
    }
    assert all_records(back) == expected
    assert made.rows == len(expected)
    touching = [
        one
        for one in batches
        if read_header(one).last_offset >= base and read_header(one).base_offset < end
    ]
    assert copied == b"".join(touching)
    untouched = [
        meaning(one)
        for one, header in ((one, read_header(one)) for one in batches)
        if first <= header.base_offset
        and header.last_offset < end
        and not any(header.base_offset <= mark <= header.last_offset for mark in deleted)
    ]
    assert [one for one in map(meaning, back) if one in untouched] == untouched


@settings(max_examples=30)
@given(history=histories)
def test_a_file_made_of_a_file_is_the_same(history: list[Spec]) -> None:
    """Codecs too: a batch says how it was compressed, and can be compressed so again."""
    with tempfile.TemporaryDirectory() as folder:
        source, first, second = (Path(folder, name) for name in ("log", "first", "second"))
        source.write_bytes(b"".join(build(history)))
        made = convert(request(source, parquet=first))
        again = convert(request(first, source_end=made.parquet_end, parquet=second))
        assert batches_of(second, again, recompressed=True) == batches_of(
            first, made, recompressed=True
        )
        assert second.read_bytes() == first.read_bytes()


def some_batch(offset: int, values: list[bytes]) -> bytes:
    records = [
        Record(value=value, timestamp=TimestampMs(1000 + at)) for at, value in enumerate(values)
    ]
    return encode_batch(records, base_offset=Offset(offset), now_ms=1)


def request(source: Path, **more: object) -> Conversion:
    told: dict[str, object] = {
        "source": source,
        "partition": 0,
        "base_offset": Offset(0),
        "end_offset": FAR,
        **more,
    }
    return Conversion(**told)  # type: ignore[arg-type]


SCHEMA = json.dumps(
    {"type": "record", "name": "v", "fields": [{"name": "id", "type": ["null", "long"]}]}
)


def test_typed_columns_and_notes(tmp_path: Path) -> None:
    source, target = tmp_path / "a.log", tmp_path / "a.parquet"
    source.write_bytes(some_batch(0, [b'{"id": 4}', b"no json", b'{"id": "text"}']))
    work = request(
        source, parquet=target, value_format="json", value_schema=SCHEMA, notes={"topic": "orders"}
    )
    made = convert(work)
    table = pq.read_table(target)
    assert [row and row["id"] for row in table["data"].to_pylist()] == [4, None, None]
    assert pq.read_metadata(target).metadata[b"topic"] == b"orders"
    assert (made.rows, made.unparsed, made.misfits) == (3, 1, 1)
    assert (made.min_timestamp, made.max_timestamp) == (1000, 1002)


def test_aborted_rows_are_marked(tmp_path: Path) -> None:
    source, target = tmp_path / "a.log", tmp_path / "a.parquet"
    record = [Record(value=b"x", timestamp=TimestampMs(1))]
    source.write_bytes(
        b"".join(
            encode_batch(
                record,
                base_offset=Offset(offset),
                now_ms=1,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
            for offset, producer in enumerate([5, 6, 5])
        )
    )
    aborted = (AbortedTxn(5, Offset(0), Offset(1)),)
    convert(request(source, parquet=target, aborted=aborted))
    assert pq.read_table(target)["aborted"].to_pylist() == [True, False, False]


def test_an_empty_segment_is_a_file_without_rows(tmp_path: Path) -> None:
    source, target = tmp_path / "a.log", tmp_path / "a.parquet"
    source.write_bytes(b"")
    made = convert(request(source, parquet=target))
    assert (made.rows, made.batches) == (0, 0)
    assert pq.read_table(target).num_rows == 0


def test_sums_of_files_that_go_as_they_are(tmp_path: Path) -> None:
    source, index = tmp_path / "a.log", tmp_path / "a.index"
    source.write_bytes(some_batch(0, [b"x"]))
    index.write_bytes(b"sidecar" * 100_000)
    made = convert(request(source, sums_of=(index,)))
    assert made.sums == (FileSums(700_000, crc32c(index.read_bytes())),)


@pytest.mark.parametrize("wanted", ["parquet", "log"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "rubbish"])
def test_damage_is_found(tmp_path: Path, wanted: str, damage: str) -> None:
    source = tmp_path / "a.log"
    good = some_batch(0, [b"x" * 100]) + some_batch(1, [b"y" * 100])
    flipped = bytearray(good)
    flipped[-20] ^= 1
    bad = {"flipped": bytes(flipped), "cut": good[:-1], "rubbish": good + b"\0" * 100}[damage]
    source.write_bytes(bad)
    with pytest.raises(CorruptBatch):
        convert(request(source, **{wanted: tmp_path / "out"}))


def test_a_schema_that_is_none(tmp_path: Path) -> None:
    source = tmp_path / "a.log"
    source.write_bytes(b"")
    with pytest.raises(InvalidConfig):
        convert(request(source, parquet=tmp_path / "o", value_format="json", value_schema="{"))


def test_requests_and_answers_as_lines(tmp_path: Path) -> None:
    work = request(
        tmp_path / "ä\n.log",
        parquet=tmp_path / "p",
        deleted=(Offset(1), Offset(1 << 60)),
        aborted=(AbortedTxn(1, Offset(2), Offset(3)),),
        notes={"topic": "a\nb"},
        sums_of=(tmp_path / "i",),
    )
    line = encode_request(work)
    assert line.count(b"\n") == 1
    assert decode_request(line) == work
    for answer in (
        Converted(rows=5, sums=(FileSums(1, 2),), parquet=FileSums(3, 4)),
        Converted(log=FileSums(1, 2)),
        ConversionFailure("CorruptBatch", "two\nlines"),
        ConversionProgress(7),
    ):
        line = encode_answer(answer)
        assert line.count(b"\n") == 1
        assert decode_answer(line) == answer
