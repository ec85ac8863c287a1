"""A manifest names a topic's files, and comes back as it was written."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.lake.tables.manifest import manifest_bytes, manifest_of, parse_manifest
from stratamq.meta.tier.files import ParquetEnd, TierFile, TierObject
from stratamq.model.errors import InvalidInput
from stratamq.model.topic import Topic, TopicConfig
from stratamq.model.types import Offset, ShardName, TimestampMs, TopicId

SCHEMA = '{"type":"record","name":"V","fields":[{"name":"id","type":"long"}]}'
TOPIC = Topic(
    topic_id=TopicId("ab12"),
    name="orders.größe",
    partitions=3,
    config=TopicConfig.of({"lake.value.format": "json", "lake.value.schema": SCHEMA}),
)


def file(partition: int, base: int, end: int, **more: Any) -> TierFile:
    name = f"orders.ab12/data/partition={partition}/{base:020d}-{end:020d}-x.parquet"
    known: dict[str, Any] = {
        "parquet": TierObject(name, 1000, 0xABC),
        "parquet_end": ParquetEnd(1, 2, 3, 4),
        "rows": end - base,
        "final": True,
        "min_timestamp": TimestampMs(5),
        "max_timestamp": TimestampMs(9),
    }
    return TierFile(
        shard=ShardName(f"ab12_{partition}"),
        base_offset=Offset(base),
        end_offset=Offset(end),
        **known | more,
    )


numbers = st.integers(0, 1 << 62)
objects = st.builds(TierObject, st.text(), numbers, st.integers(0, (1 << 32) - 1))
files = st.builds(
    TierFile,
    shard=st.integers(0, 20).map(lambda number: ShardName(f"ab12_{number}")),
    base_offset=numbers,
    end_offset=numbers,
    final=st.booleans(),
    parquet=st.none() | objects,
    log=st.none() | objects,
    index=st.none() | objects,
    timeindex=st.none() | objects,
    rows=numbers,
    min_timestamp=st.integers(-1, 1 << 62),
    max_timestamp=st.integers(-1, 1 << 62),
    unparsed=numbers,
    misfits=numbers,
    columns=st.sampled_from(["", '[["id","long"]]', '[["w",[["x","date"]]]]']),
)


@given(st.lists(files, max_size=5), numbers)
@settings(max_examples=60)
def test_it_comes_back_as_it_was(found: list[TierFile], revision: int) -> None:
    manifest = manifest_of(TOPIC, found, revision)
    assert parse_manifest(manifest_bytes(manifest)) == manifest
    assert len(manifest.files) == len(found)


def test_it_says_what_a_reader_of_the_table_asks() -> None:
    found = [
        file(1, 0, 10, columns='[["id","long"],["x","int"]]', unparsed=2),
        file(0, 10, 25, final=False, columns='[["id","long"]]', misfits=1, unparsed=1),
        file(0, 0, 10),
    ]
    plain = json.loads(manifest_bytes(manifest_of(TOPIC, found, 7)))
    assert [(one["partition"], one["base_offset"]) for one in plain["files"]] == [
        (0, 0),
        (0, 10),
        (1, 0),
    ]
    assert plain["columns"] == [["id", "long"], ["x", "int"]]
    assert (plain["rows"], plain["unparsed"], plain["misfits"]) == (35, 3, 1)
    assert (plain["topic"], plain["revision"]) == ("orders.größe", 7)
    assert plain["value"] == {"format": "json", "schema": SCHEMA}
    first = plain["files"][0]
    assert first["parquet"] == {"key": found[2].objects[0].key, "size": 1000, "crc32c": "00000abc"}
    assert first["final"]
    assert not plain["files"][1]["final"]
    assert "log" not in first


def test_the_same_files_are_the_same_bytes() -> None:
    found = [file(0, 0, 10), file(0, 10, 20), file(1, 0, 3)]
    assert manifest_bytes(manifest_of(TOPIC, found, 1)) == manifest_bytes(
        manifest_of(TOPIC, found[::-1], 1)
    )


def changed(**fields: Any) -> bytes:
    plain = json.loads(manifest_bytes(manifest_of(TOPIC, [file(0, 0, 10)], 1)))
    return json.dumps(plain | fields).encode()


def with_file(**fields: Any) -> bytes:
    plain = json.loads(changed())
    kept = {name: value for name, value in plain["files"][0].items() if name not in fields}
    given = {name: value for name, value in fields.items() if value is not None}
    return changed(files=[kept | given])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "version None"),
        (changed(version=2), "version 2, and only 1"),
        (changed(topic=None), "manifest: topic is None, and should be a str"),
        (changed(revision=True), "revision is True"),
        (changed(value=[]), r"value is \[\]"),
        (changed(files=[3]), "files is 3"),
        (with_file(rows=None), r"files\[0\]: rows is missing, and should be a int"),
        (with_file(parquet={"key": "a"}), r"files\[0\]: parquet: .* is missing"),
        (with_file(parquet={"key": "a", "size": 1, "crc32c": "x"}), "no hexadecimal number"),
        (with_file(columns=[["a", "b"]]), "columns: cannot read"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        parse_manifest(data)


@given(st.data())
@settings(max_examples=100)
def test_damage_is_refused_or_read_and_nothing_else(data: st.DataObject) -> None:
    good = bytearray(manifest_bytes(manifest_of(TOPIC, [file(0, 0, 10)], 1)))
    at = data.draw(st.integers(0, len(good) - 1))
    good[at : at + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=5))
    with contextlib.suppress(InvalidInput):
        parse_manifest(bytes(good))
