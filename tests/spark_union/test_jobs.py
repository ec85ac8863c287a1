"""Jobs on a topic's history: planned by pure functions, run by real Spark on a real node."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

import stratamq.spark
from stratamq.client import Aborted, BlockingClient, TopicPartition, options_of
from stratamq.client.failures import Refusal
from stratamq.model.record import Record
from stratamq.model.transaction import AbortedTxn
from stratamq.model.types import Offset
from stratamq.spark.jobs import compact_files, convert_backlog, partitioned_copy
from stratamq.spark.jobs.plan import FileRewrite, backlog, small_files, with_deletions
from stratamq.spark.jobs.task import aborted_spans
from stratamq.wire.kafka.protocol.messages.lake import (
    CommitLakeTopic,
    DescribedLake,
    LakeFile,
    LakePartition,
    MadeFile,
)
from tests.clients.node import Node, running
from tests.spark_union.world import FLAGS
from tests.waiting import let_run_here, wait_until

pytestmark = [
    pytest.mark.needs("java"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(600),
]
_numbers = itertools.count()


def file(
    base: int, end: int, size: int = 10, *, raw: bool = False, final: bool = True, **more: int
) -> LakeFile:
    return LakeFile(
        base_offset=base,
        end_offset=end,
        final=final,
        parquet_key=None if raw else "k",
        parquet_size=0 if raw else size,
        log_key="l" if raw else None,
        rows=end - base,
        min_timestamp=0,
        max_timestamp=0,
        log_bytes=size,
        **more,
    )


def lake(*files: LakeFile, start: int = 0, deleted: tuple[int, ...] = ()) -> DescribedLake:
    part = LakePartition(partition_index=3, start_offset=start, files=files, deleted=deleted)
    return DescribedLake(name="t", partitions=[part])


def test_raw_segments_are_a_backlog() -> None:
    told = lake(file(0, 5, raw=True), file(5, 9), file(9, 12, raw=True), start=6)
    assert backlog(told) == [FileRewrite(3, 9, 12, (9,), ("l",), start=6)]


def test_small_neighbours_become_one_file() -> None:
    told = lake(
        *(file(0, 5), file(5, 9), file(9, 12)),
        file(12, 15, raw=True),
        *(file(15, 20), file(30, 35), file(35, 40, 25), file(40, 41, final=False)),
    )
    two = ("k", "k")
    assert small_files(told, 20) == [FileRewrite(3, 0, 9, (0, 5), two)]
    assert small_files(told, 30) == [FileRewrite(3, 0, 12, (0, 5, 9), (*two, "k"))]
    assert small_files(told, 35)[1:] == [FileRewrite(3, 30, 40, (30, 35), two)]
    assert small_files(told, 1000)[1:] == [FileRewrite(3, 30, 40, (30, 35), two)], "only final ones"
    assert small_files(told, 5) == []


def test_files_with_deleted_records_are_made_anew() -> None:
    told = lake(file(0, 5), file(5, 9), file(9, 12, raw=True), deleted=(6, 8, 9))
    parquet = FileRewrite(3, 5, 9, (5,), ("k",), deleted=2)
    raw = FileRewrite(3, 9, 12, (9,), ("l",), deleted=1, parquet=False, log=True)
    assert with_deletions(told) == [parquet, raw]
    assert with_deletions(lake(file(5, 9, deleted=2), deleted=(6, 8))) == [], "it was made so"


def test_files_with_records_below_the_start_are_made_anew() -> None:
    told = lake(file(0, 5), file(5, 9), file(9, 12), start=7)
    assert with_deletions(told) == [FileRewrite(3, 5, 9, (5,), ("k",), start=7)]
    assert with_deletions(lake(file(5, 9, start=7), start=7)) == [], "it was made so"
    assert len(with_deletions(lake(file(5, 9, start=7), start=8))) == 1


def test_an_aborted_transaction_ends_at_its_mark() -> None:
    begun = [Aborted(2, 7), Aborted(20, 7), Aborted(22, 8)]
    assert aborted_spans(begun, [(7, 10), (9, 11), (7, 25)], 40) == [
        AbortedTxn(7, Offset(2), Offset(10)),
        AbortedTxn(7, Offset(20), Offset(25)),
        AbortedTxn(8, Offset(22), Offset(39)),
    ]


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("tiered"), *FLAGS) as node:
        yield node


@pytest.fixture
def client(tiered: Node) -> Iterator[BlockingClient]:
    with BlockingClient(options_of(tiered.address, {})) as client:
        yield client


@pytest.fixture
def moved(client: BlockingClient) -> Callable[[str], str]:
    """A topic with an aborted transaction in it, of which all sealed segments have moved."""

    def made(tier_format: str) -> str:
        name = f"jobs-{next(_numbers)}"
        configs = {
            "segment.bytes": "4000",
            "local.retention.bytes": "1",
            "tier.format": tier_format,
        }
        client.call(client.asyncio.create_topic(name, 1, configs=configs))
        place = TopicPartition(name, 0)
        sender = client.call(client.asyncio.sender())
        for number in range(8):
            client.call(sender.send(place, _records(number)))
            if number == 2:
                aborted = client.call(client.asyncio.begin(f"{name}-abort"))
                client.call(aborted.send(place, _records(99)))
                client.call(aborted.end(commit=False))
        seen = -1

        def has_moved() -> bool:
            """All that was sealed, and for a while nothing else."""
            nonlocal seen
            part = client.call(client.asyncio.describe_lake(name)).partitions[0]
            before, seen = seen, len(part.files)
            if part.local_start_offset > 150 and seen == before:
                return True
            let_run_here(1.5)
            return False

        wait_until(has_moved, "it moves")
        return name

    return made


def _records(number: int) -> list[Record]:
    return [Record(value=b"%d-%d" % (number, at) + b"." * 60) for at in range(30)]


def files_of(client: BlockingClient, name: str) -> list[LakeFile]:
    return list(client.call(client.asyncio.describe_lake(name)).partitions[0].files)


def test_a_backlog_becomes_a_table_and_small_files_one(
    spark: SparkSession,
    tiered: Node,
    client: BlockingClient,
    moved: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    name, servers = moved("log"), tiered.address
    before = files_of(client, name)
    assert len(before) > 2
    assert all(one.parquet_key is None for one in before)

    def values() -> list[bytes]:
        rows = stratamq.spark.topic(spark, name, servers=servers).orderBy("offset").collect()
        return [row.value for row in rows]

    expected = [record.value for number in range(8) for record in _records(number)]
    assert values() == expected
    done = convert_backlog(spark, name, servers=servers)
    assert (done.replaced, done.made, done.overtaken) == (len(before), len(before), 0)
    assert all(one.parquet_key and not one.log_key for one in files_of(client, name))
    assert values() == expected
    assert convert_backlog(spark, name, servers=servers).made == 0, "it is done"

    done = compact_files(spark, name, servers=servers)
    assert (done.replaced, done.made) == (len(before), 1)
    assert [(one.base_offset, one.end_offset) for one in files_of(client, name)] == [
        (0, before[-1].end_offset)
    ]
    assert values() == expected
    fetched = client.call(client.asyncio.fetch(TopicPartition(name, 0), 0, committed=True))
    assert fetched.data, "nodes read what tasks made"

    target = tmp_path_factory.mktemp("copy") / "table"
    for _ in range(2):
        partitioned_copy(spark, name, str(target), ["partition"], servers=servers)
    assert spark.read.parquet(str(target)).count() == len(expected)


def commit(name: str, file: LakeFile, **wrong: object) -> CommitLakeTopic:
    said = {
        "base_offset": file.base_offset,
        "end_offset": file.end_offset,
        "key": file.parquet_key,
        "size": file.parquet_size,
        **dict.fromkeys(("crc", "end_size", "end_crc", "index_size", "index_crc"), 1),
        **dict.fromkeys(("rows", "batches", "min_timestamp", "max_timestamp"), 1),
        **wrong,
    }
    replaced = said.pop("replace", [file.base_offset])
    objects = said.pop("objects", [file.parquet_key])
    made = MadeFile(**said)  # type: ignore[arg-type]
    return CommitLakeTopic(
        name=name,
        partition_index=0,
        replace=replaced,  # type: ignore[arg-type]
        objects=objects,  # type: ignore[arg-type]
        file=made,
    )


def test_what_is_not_there_takes_nobodys_place(
    client: BlockingClient, moved: Callable[[str], str]
) -> None:
    name = moved("parquet")
    files = files_of(client, name)
    first, second = files[0], files[1]
    wrong = [
        (commit(name, first), "not what it is said to be"),
        (commit(name, first, end_offset=first.end_offset - 1), "does not cover"),
        (commit(name, first, objects=[second.parquet_key]), "rewritten since"),
        (commit(name, first, objects=[]), "rewritten since"),
        (commit(name, first, key=second.parquet_key), "not that of a file at"),
        (commit(name, first, log_key=first.parquet_key), "not one of this cluster's"),
        (commit(name, first, key="elsewhere/file"), "not that of a file at"),
        (commit(name, first, replace=[first.base_offset + 1]), "begins at offset"),
        (commit(name, first, replace=[]), "only final files"),
    ]
    for one, why in wrong:
        with pytest.raises(Refusal, match=why):
            client.call(client.asyncio.commit_lake(one))
    assert files_of(client, name) == files
