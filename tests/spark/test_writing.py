"""Rows to records without Spark: what columns become, where they go, what a node has then."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.client import BlockingClient, options_of
from stratamq.model.errors import InvalidRecord
from stratamq.model.record import Record
from stratamq.spark.sink import records
from stratamq.spark.sink.records import TransactionWriter, pack, partitions_of, sizes_of
from stratamq.spark.sink.rows import by_topic, records_of
from stratamq.wire.kafka.partitioner import partition_for_key
from stratamq.wire.kafka.records import decode_batch, iter_batches, pack_batch
from tests.clients.node import Node
from tests.waiting import every

NOW_MS = 1_714_521_600_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

some_bytes = st.binary(max_size=20)
headers = st.lists(st.tuples(st.sampled_from("abc"), st.none() | some_bytes), max_size=3)
rows = st.tuples(
    st.none() | some_bytes, st.none() | some_bytes, headers, st.lists(some_bytes, max_size=2)
)


@given(st.lists(st.none() | st.binary(max_size=40), max_size=50), st.integers(1, 100))
def test_keys_go_where_kafkas_clients_put_them(keys: list[bytes | None], count: int) -> None:
    whole = pa.array([b"before", *keys], pa.binary())
    found = partitions_of(whole.slice(1), count)
    assert len(found) == len(keys)
    for key, partition in zip(keys, found.tolist(), strict=True):
        assert key is None or partition == partition_for_key(key, count)


def frame(given: list[Any]) -> pa.RecordBatch:
    keys, values, headers, tags = zip(*given, strict=True) if given else ((), (), (), ())
    said = [[{"key": name, "value": value} for name, value in one] for one in headers]
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array(said, HEADERS),
        "tags": pa.array(tags, pa.list_(pa.binary())),
    }
    return pa.record_batch(columns)


def expected(row: Any) -> Record:
    key, value, headers, tags = row
    named = tuple((name.encode(), data) for name, data in headers)
    return Record(value, key, named, tuple(dict.fromkeys(tags)))


@given(st.lists(rows, min_size=1, max_size=20), st.integers(0, 19))
def test_records_are_the_rows(given: list[Any], cut: int) -> None:
    """Whole, and from two pieces: what a pile holds when its batch is full."""
    records = records_of(frame(given))
    order = pa.array(range(len(given)))
    pieces = [records.take(order[:cut]), records.take(order[cut:])]
    for packed in (pack([records], now_ms=NOW_MS), pack(pieces, now_ms=NOW_MS)):
        ((header, batch),) = iter_batches(pack_batch(packed))
        found = decode_batch(header, batch)
        assert [one._replace(timestamp=-1, offset=-1) for one in found] == list(
            map(expected, given)
        )
        assert {one.timestamp for one in found} == {NOW_MS}
        assert header.record_count == len(given)
    room = 61 + sum(sizes_of(records).tolist())
    assert len(pack_batch(pack([records], now_ms=NOW_MS))) <= room, "sizes are not guessed low"


def test_text_and_missing_columns() -> None:
    batch = pa.record_batch({"value": pa.array(["a", None, "ü"])})
    records = records_of(batch)
    assert records.column("value").to_pylist() == [b"a", None, "ü".encode()]
    assert records.column("key").null_count == 3
    assert records.column("headers").to_pylist() == [[], [], []]


def test_rows_by_topic() -> None:
    batch = pa.record_batch({"topic": ["b", "a", "b"], "value": ["1", "2", "3"]})
    found = {name: rows.column("value").to_pylist() for name, rows in by_topic(batch, None)}
    assert found == {"b": ["1", "3"], "a": ["2"]}
    assert [name for name, _ in by_topic(batch, "c")] == ["c"], "the option counts"
    with pytest.raises(InvalidRecord, match="a row has no topic"):
        list(by_topic(pa.record_batch({"topic": pa.array([None], pa.string())}), None))


# -- a real node -----------------------------------------------------------------------------------


@pytest.fixture
def client(node: Node) -> Iterator[BlockingClient]:
    with BlockingClient(options_of(node.address, {})) as client:
        yield client


Stored = dict[int, list[list[Record]]]


def written(client: BlockingClient, topic: str, *batches: pa.RecordBatch) -> Stored:
    """By partition, batch by batch, after all were added to one transaction."""
    transaction = client.call(client.asyncio.begin(uuid.uuid4().hex))
    writer = TransactionWriter(client, transaction)
    for batch in batches:
        writer.add(batch, topic)
    writer.flush()
    assert writer.rows == sum(batch.num_rows for batch in batches)
    client.call(transaction.end(commit=True))
    found: Stored = {}
    for place in sorted(transaction.places):
        fetched = client.call(client.asyncio.fetch(place, 0, committed=True))
        found[place.partition] = [
            decode_batch(header, batch)
            for header, batch in iter_batches(fetched.data)
            if not header.is_control
        ]
    return found


def test_rows_go_to_the_partition_they_name_or_their_keys(
    client: BlockingClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=3)
    keys = [None if i % 3 == 0 else b"%d" % i for i in range(90)]
    named = [None if i % 2 else i % 3 for i in range(90)]
    values = [b"%02d" % i for i in range(90)]
    batch = pa.record_batch(
        {"key": pa.array(keys, pa.binary()), "partition": pa.array(named), "value": values}
    )
    found = written(client, topic, batch.slice(0, 40), batch.slice(40))
    stored = {
        place: [one.value for batch in some for one in batch] for place, some in found.items()
    }
    places = {value: place for place, some in stored.items() for value in some}
    assert sorted(places, key=str) == values
    for key, name, value in zip(keys, named, values, strict=True):
        if name is not None:
            assert places[value] == name
        elif key is not None:
            assert places[value] == partition_for_key(key, 3)
    assert all(some == sorted(some, key=str) for some in every(stored.values())), "in order"
    with pytest.raises(InvalidRecord, match="has 3 partitions, not 3"):
        written(client, topic, pa.record_batch({"value": ["x"], "partition": [3]}))
    with pytest.raises(InvalidRecord, match="has 3 partitions, not -1"):
        written(client, topic, pa.record_batch({"value": ["x"], "partition": [-1]}))


def test_batches_are_full_and_go_round(
    client: BlockingClient, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "BATCH_BYTES", 1000)
    monkeypatch.setattr(records, "BATCH_RECORDS", 30)
    topic = new_topic(partitions=4)
    large = pa.record_batch({"value": [b"x" * 80] * 95})
    found = written(client, topic, large.slice(0, 7), large.slice(7))
    counts = [len(batch) for some in found.values() for batch in some]
    assert sum(counts) == 95
    assert max(counts) == 10, "a batch ends with the record that fills it"
    assert counts.count(10) >= 8
    assert sorted(found) == [0, 1, 2, 3]
    few = written(client, new_topic(partitions=1), large.slice(0, 15), large.slice(15, 5))
    assert [len(batch) for batch in few[0]] == [10, 10], "what is left waits for more"
    small = pa.record_batch({"value": [b""] * 100})
    many = written(client, new_topic(partitions=1), small.slice(0, 7), small.slice(7))
    assert [len(batch) for batch in many[0]] == [30, 30, 30, 10]
