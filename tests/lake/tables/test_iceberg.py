"""Topics as Iceberg tables: what `sync` leaves is what was wanted, whoever reads it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from stratamq.lake.tables.catalog import CatalogOptions, open_catalog
from stratamq.lake.tables.errors import TableError
from stratamq.lake.tables.iceberg import OFFSETS, REVISION, IcebergTables, Synced
from stratamq.lake.tables.snapshots import SnapshotLimits
from stratamq.meta.tier.files import TierFile
from stratamq.model.errors import CorruptObject, InvalidConfig, ObjectNotFound, StoreUnavailable
from stratamq.model.record import Record
from stratamq.model.transaction import AbortedTxn
from stratamq.model.types import Offset, TopicId
from stratamq.tiering.tables.worker import StoreBlobs
from stratamq.wire.kafka.records import encode_batch
from tests.lake.tables.conftest import OpenTables
from tests.lake.tables.files import NARROW, WIDE, make, some, wanted
from tests.lake.tables.readers import Found, by_duckdb, by_pyiceberg, found, users_table


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Callable[[], Table]]:
    """The table as a user sees it now."""
    opened = []

    def load() -> Table:
        context = users_table(tmp_path / "lake" / "catalog.sqlite")
        opened.append(context)
        return context.__enter__()

    yield load
    for context in opened:
        context.__exit__(None, None, None)


def rows_of(*ranges: tuple[int, int, int]) -> Found:
    """What readers should find of these partitions and offsets."""
    start = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
    return found(
        [
            (
                partition,
                base + number,
                start + datetime.timedelta(milliseconds=base + number),
                record.key,
                record.value,
                list(record.tags),
                False,
            )
            for partition, base, end in ranges
            for number, record in enumerate(some(base, end))
        ]
    )


def check(table: Table, *ranges: tuple[int, int, int]) -> None:
    assert by_pyiceberg(table) == rows_of(*ranges)
    assert by_duckdb(table) == rows_of(*ranges)


def test_the_whole_life_of_a_table(
    tables: IcebergTables, blobs: StoreBlobs, table: Callable[[], Table]
) -> None:
    first, second = make(blobs, 0, 0, 40), make(blobs, 1, 0, 25, final=False)
    assert tables.sync(wanted([first, second])) == Synced(added=2, rows=65)
    check(table(), (0, 0, 40), (1, 0, 25))

    more = make(blobs, 1, 25, 30, final=False)
    assert tables.sync(wanted([first, second, more])) == Synced(added=1, rows=70)
    check(table(), (0, 0, 40), (1, 0, 30))

    merged = make(blobs, 1, 0, 30)
    assert tables.sync(wanted([first, merged])) == Synced(added=1, removed=2, rows=70)
    check(table(), (0, 0, 40), (1, 0, 30))

    typed = make(blobs, 0, 40, 60, fields=NARROW)
    assert tables.sync(wanted([first, merged, typed])) == Synced(added=1, rows=90)
    check(table(), (0, 0, 60), (1, 0, 30))

    assert tables.sync(wanted([merged, typed])) == Synced(removed=1, rows=50)
    check(table(), (0, 40, 60), (1, 0, 30))

    assert tables.sync(wanted([])) == Synced(removed=2)
    assert by_pyiceberg(table()) == found([])


def test_a_snapshot_says_what_it_holds(
    tables: IcebergTables, blobs: StoreBlobs, table: Callable[[], Table]
) -> None:
    files = [make(blobs, 0, 7, 9), make(blobs, 0, 12, 20), make(blobs, 3, 0, 5)]
    asked = wanted(files)
    tables.sync(asked)
    snapshot = table().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert json.loads(snapshot.summary[OFFSETS]) == {"0": [7, 20], "3": [0, 5]}
    assert snapshot.summary[REVISION] == str(asked.revision)
    assert snapshot.summary["total-records"] == "15"
    assert snapshot.summary["total-data-files"] == "3"


def test_repeating_adds_nothing_whoever_does_it(
    open_tables: OpenTables, blobs: StoreBlobs, table: Callable[[], Table]
) -> None:
    files = [make(blobs, 0, 0, 10, fields=NARROW), make(blobs, 0, 10, 20, fields=NARROW)]
    one = open_tables()
    assert one.sync(wanted(files)).added == 2
    before = table().metadata
    for other in (one, open_tables()):  # the second knows nothing of what the first did
        assert other.sync(wanted(files)) == Synced(rows=20)
    assert table().metadata == before


class Meddling:
    """A store through which somebody else gets in between, once."""

    def __init__(self, blobs: StoreBlobs, between: Callable[[], object]) -> None:
        self.url = blobs.url
        self._blobs, self._between = blobs, [between]
        self.size, self.read, self.delete = blobs.size, blobs.read, blobs.delete

    def write(self, key: str, data: bytes) -> None:
        self._blobs.write(key, data)
        if key.endswith("-m0.avro") and self._between:
            self._between.pop()()


def test_one_that_comes_too_late_looks_again(
    open_tables: OpenTables, blobs: StoreBlobs, table: Callable[[], Table], tmp_path: Path
) -> None:
    files = [make(blobs, 0, 0, 10), make(blobs, 0, 10, 20), make(blobs, 1, 0, 10)]
    other = open_tables()
    other.sync(wanted(files[:1]))
    meddling = Meddling(blobs, lambda: other.sync(wanted(files[:2])))
    one = open_tables(through=meddling)
    assert one.sync(wanted(files)) == Synced(added=1, rows=30)
    assert not meddling._between
    check(table(), (0, 0, 20), (1, 0, 10))
    assert len(table().snapshots()) == 3


def test_many_at_once_leave_what_was_wanted(
    open_tables: OpenTables, blobs: StoreBlobs, table: Callable[[], Table]
) -> None:
    files = [make(blobs, number % 3, 10 * number, 10 * number + 10) for number in range(9)]
    failures: list[Exception] = []

    def run(one: IcebergTables) -> None:
        try:
            for count in (3, 6, 9):
                one.sync(wanted(files[:count]))
            one.sync(wanted(files))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(open_tables(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    open_tables().sync(wanted(files))
    check(table(), *((number % 3, 10 * number, 10 * number + 10) for number in range(9)))


# -- columns ---------------------------------------------------------------------------------------


def test_files_of_older_schemas_have_nulls(
    tables: IcebergTables, blobs: StoreBlobs, table: Callable[[], Table]
) -> None:
    files = [make(blobs, 0, 0, 3)]
    tables.sync(wanted(files))
    files.append(make(blobs, 0, 3, 6, fields=NARROW))
    tables.sync(wanted(files))
    files.append(make(blobs, 0, 6, 9, fields=WIDE))
    tables.sync(wanted(files))
    rows = table().scan(selected_fields=("offset", "data")).to_arrow().sort_by("offset")
    typed = rows.column("data").to_pylist()
    assert typed[:3] == [None] * 3
    assert [(one["id"], one["name"], one["at"]) for one in typed[3:6]] == [
        (number, f"n{number % 5}", None) for number in range(3, 6)
    ]
    assert all(one["at"] for one in typed[6:])
    assert table().scan("data.id >= 5").to_arrow().num_rows == 4
    tasks = table().scan("data.id >= 6").plan_files()
    assert files[1].parquet is not None
    assert not any(task.file.file_path.endswith(files[1].parquet.key) for task in tasks), "spared"


def test_columns_are_there_before_any_file_has_them(
    tables: IcebergTables, blobs: StoreBlobs, table: Callable[[], Table]
) -> None:
    files = [make(blobs, 0, 0, 3)]
    tables.sync(wanted(files))
    tables.sync(wanted(files, columns='[["id","long"],["deep",[["x","date"]]]]'))
    assert {"data.id", "data.deep.x"} <= set(table().schema().column_names)
    check(table(), (0, 0, 3))
    before = table().metadata
    tables.sync(wanted(files, columns='[["id","long"]]'))
    assert table().metadata == before, "columns stay"


def test_rows_of_aborted_transactions_can_be_left_out(
    tables: IcebergTables, blobs: StoreBlobs, table: Callable[[], Table]
) -> None:
    batch = encode_batch(
        [Record(key=b"k", value=b"gone")],
        now_ms=1,
        base_offset=10,
        producer_id=5,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    mark = AbortedTxn(5, Offset(10), Offset(11))
    files = [make(blobs, 0, 0, 10), make(blobs, 0, 10, 11, batch=batch, aborted=[mark])]
    tables.sync(wanted(files))
    assert by_pyiceberg(table()).rows == by_duckdb(table()).rows == 11
    assert by_pyiceberg(table(), "aborted = false") == rows_of((0, 0, 10))
    assert by_duckdb(table(), "not aborted") == rows_of((0, 0, 10))


def test_only_files_with_rows_are_in_it(
    tables: IcebergTables, blobs: StoreBlobs, table: Callable[[], Table]
) -> None:
    whole = make(blobs, 0, 0, 5)
    raw = dataclasses.replace(make(blobs, 0, 5, 9), parquet=None, parquet_end=None)
    empty = dataclasses.replace(make(blobs, 0, 9, 10), rows=0)
    assert tables.sync(wanted([whole, raw, empty])) == Synced(added=1, rows=5)
    check(table(), (0, 0, 5))


# -- whose table it is -----------------------------------------------------------------------------


def test_a_topic_made_anew_has_a_table_of_its_own(
    tables: IcebergTables, blobs: StoreBlobs, table: Callable[[], Table]
) -> None:
    tables.sync(wanted([make(blobs, 0, 0, 5, fields=NARROW)]))
    newer = TopicId("cd" * 16)
    tables.sync(wanted([make(blobs, 0, 0, 3, topic_id=newer)], topic_id=newer))
    check(table(), (0, 0, 3))
    assert "data" not in table().schema().column_names
    assert table().location().endswith(newer)


def test_dropping_forgets_the_table_of_that_topic_only(
    tables: IcebergTables, blobs: StoreBlobs, table: Callable[[], Table]
) -> None:
    asked = wanted([make(blobs, 0, 0, 5)])
    tables.sync(asked)
    assert not tables.drop("orders", TopicId("cd" * 16))
    assert not tables.drop("others", asked.topic_id)
    check(table(), (0, 0, 5))
    assert tables.drop("orders", asked.topic_id)
    assert not tables.drop("orders", asked.topic_id)
    assert tables.sync(asked) == Synced(added=1, rows=5)


def test_a_table_that_is_no_topics_is_left_alone(
    tables: IcebergTables, blobs: StoreBlobs, tmp_path: Path
) -> None:
    tables.sync(wanted([make(blobs, 0, 0, 5)]))
    with users_table(tmp_path / "lake" / "catalog.sqlite") as mine:
        assert isinstance(mine.catalog, SqlCatalog)
        mine.catalog.create_table(("stratamq", "mine"), mine.schema(), location=f"{blobs.url}/mine")
    with pytest.raises(TableError, match=r"stratamq\.mine is there already, and is no topic's"):
        tables.sync(wanted([make(blobs, 0, 0, 5, topic="mine")], topic="mine"))


def test_names_with_dots_are_names(
    tables: IcebergTables, blobs: StoreBlobs, tmp_path: Path
) -> None:
    tables.sync(wanted([make(blobs, 0, 0, 5, topic="a.b.c")], topic="a.b.c"))
    with users_table(tmp_path / "lake" / "catalog.sqlite", "a.b.c") as one:
        check(one, (0, 0, 5))
    assert [name for name, _ in tables.others({})] == ["a.b.c"]
    assert not tables.others({"a.b.c": TopicId("cd" * 16)})


# -- failures --------------------------------------------------------------------------------------


def test_a_damaged_footer_is_not_believed(tables: IcebergTables, blobs: StoreBlobs) -> None:
    file = make(blobs, 0, 0, 5)
    assert file.parquet is not None
    data = bytearray(blobs.read(file.parquet.key, 0, file.parquet.size))
    data[-20] ^= 1
    blobs.write(file.parquet.key, bytes(data))
    with pytest.raises(CorruptObject, match="its footer is not the one that was written"):
        tables.sync(wanted([file]))


def test_a_file_that_is_gone_is_no_part_of_the_table(
    tables: IcebergTables, blobs: StoreBlobs, table: Callable[[], Table]
) -> None:
    kept, gone = make(blobs, 0, 0, 5), make(blobs, 0, 5, 9)
    assert gone.parquet is not None
    blobs.delete(gone.parquet.key)
    tables.sync(wanted([kept]))
    with pytest.raises(ObjectNotFound):
        tables.sync(wanted([kept, gone]))
    check(table(), (0, 0, 5))
    assert tables.sync(wanted([kept])) == Synced(rows=5)


class Failing:
    """A store that fails at one of its calls: before it, or so that only the answer is lost."""

    def __init__(self, blobs: StoreBlobs, at: int, *, after: bool) -> None:
        self.url = blobs.url
        self._blobs, self._left, self._after = blobs, at, after

    def _call(self, do: Callable[..., Any], *args: Any) -> Any:
        self._left -= 1
        if self._left or self._after:
            answer = do(*args)
        if not self._left:
            raise StoreUnavailable("down")
        return answer

    @property
    def failed(self) -> bool:
        return self._left <= 0

    def size(self, key: str) -> int:
        return int(self._call(self._blobs.size, key))

    def read(self, key: str, start: int, stop: int) -> bytes:
        return bytes(self._call(self._blobs.read, key, start, stop))

    def write(self, key: str, data: bytes) -> None:
        self._call(self._blobs.write, key, data)

    def delete(self, key: str) -> None:
        self._call(self._blobs.delete, key)


@pytest.mark.parametrize("after", [False, True])
def test_whichever_call_to_the_store_fails_the_next_try_makes_it_right(
    open_tables: OpenTables, blobs: StoreBlobs, table: Callable[[], Table], after: bool
) -> None:
    tables = open_tables()
    kept, files = make(blobs, 1, 0, 5), [make(blobs, 0, 0, 10)]
    tables.sync(wanted([kept, *files]))
    for number in range(1, 100):
        files = [make(blobs, 0, 0, 10 + number, fields=NARROW if number > 1 else None)]
        failing = Failing(blobs, number, after=after)
        with contextlib.suppress(StoreUnavailable, TableError):
            open_tables(through=failing, limits=SnapshotLimits(count_max=1)).sync(
                wanted([kept, *files])
            )
        tables.sync(wanted([kept, *files]))
        found = table()
        assert by_pyiceberg(found) == rows_of((1, 0, 5), (0, 0, 10 + number))
        assert len(list(found.scan().plan_files())) == 2
        if not failing.failed:
            break
    assert number > 5


def test_a_catalog_that_was_lost_is_filled_again(
    open_tables: OpenTables, blobs: StoreBlobs, table: Callable[[], Table], tmp_path: Path
) -> None:
    files = [make(blobs, 0, 0, 5), make(blobs, 0, 5, 9, fields=NARROW)]
    open_tables().sync(wanted(files))
    (tmp_path / "lake" / "catalog.sqlite").unlink()
    assert open_tables().sync(wanted(files)) == Synced(added=2, rows=9)
    check(table(), (0, 0, 9))


@pytest.mark.parametrize("name", ["a b", "a%20b", "a?b#c@d", "ü"])
def test_a_catalog_lies_where_it_is_told_to(name: str, blobs: StoreBlobs, tmp_path: Path) -> None:
    path = tmp_path / name / "catalog.sqlite"
    open_catalog(CatalogOptions(path=path), blobs).close()
    assert path.exists()


def test_a_catalog_that_is_no_catalog(blobs: StoreBlobs, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="is no address of a REST catalog"):
        open_catalog(CatalogOptions(uri="thrift://x", path=tmp_path), blobs)
    with pytest.raises(TableError, match="ConnectionError"):
        open_catalog(CatalogOptions(uri="http://127.0.0.1:1", path=tmp_path), blobs)


# -- price -----------------------------------------------------------------------------------------


class Counting:
    def __init__(self, blobs: StoreBlobs) -> None:
        self.url = blobs.url
        self._blobs = blobs
        self.size, self.write, self.delete = blobs.size, blobs.write, blobs.delete
        self.keys: list[str] = []

    def read(self, key: str, start: int, stop: int) -> bytes:
        self.keys.append(key)
        return self._blobs.read(key, start, stop)

    def taken(self, ending: str) -> int:
        return sum(key.endswith(ending) for key in self.keys)


def test_a_further_file_costs_the_same_however_many_there_are(
    open_tables: OpenTables, blobs: StoreBlobs
) -> None:
    counting = Counting(blobs)
    tables = open_tables(through=counting)
    files: list[TierFile] = []
    for number in range(40):
        files.append(make(blobs, number % 2, 10 * number, 10 * number + 10))
        counting.keys.clear()
        tables.sync(wanted(files))
        assert counting.taken(".parquet") == 1, "the footer of the new one"
        manifests = sum("-m" in key for key in counting.keys)
        assert manifests <= 2 or number % 32 in (30, 31), "only when small ones are merged"


@pytest.mark.parametrize("blobs", ["s3"], indirect=True)
def test_on_s3(tables: IcebergTables, blobs: StoreBlobs, tmp_path: Path, s3_address: str) -> None:
    files = [make(blobs, 0, 0, 40), make(blobs, 1, 0, 10, fields=NARROW)]
    tables.sync(wanted(files))
    files[0] = make(blobs, 0, 0, 50)
    assert tables.sync(wanted(files)) == Synced(added=1, removed=1, rows=60)
    properties = {"s3.endpoint": s3_address, "s3.region": "us-east-1"}
    with users_table(tmp_path / "lake" / "catalog.sqlite", **properties) as one:
        assert by_pyiceberg(one) == rows_of((0, 0, 50), (1, 0, 10))


@pytest.mark.long
@pytest.mark.needs("java", "mvn")
@pytest.mark.parametrize("blobs", ["hdfs"], indirect=True)
def test_on_hdfs(tables: IcebergTables, blobs: StoreBlobs) -> None:
    """Without Hadoop's libraries, which pyarrow would need: read back through our own files."""
    files = [make(blobs, 0, 0, 40), make(blobs, 1, 0, 10, fields=NARROW)]
    tables.sync(wanted(files))
    files[0] = make(blobs, 0, 0, 50)
    assert tables.sync(wanted(files)) == Synced(added=1, removed=1, rows=60)
    assert tables.sync(wanted(files)) == Synced(rows=60)
    table = tables._catalog.load_table(("stratamq", "orders"))
    assert by_pyiceberg(table) == rows_of((0, 0, 50), (1, 0, 10))
