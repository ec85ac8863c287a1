"""Open files and their row groups: shared, bounded, unpacked once and ahead."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stratamq.lake.parquet.groups import RowGroup
from stratamq.lake.parquet.pages import ValuePages
from stratamq.lake.parquet.reading import ColdFile
from stratamq.meta.tier.files import TierFile
from stratamq.model.errors import StoreUnavailable
from stratamq.tiering.cold.ahead import Ahead, Streams
from stratamq.tiering.cold.limits import ColdLimits
from stratamq.tiering.cold.objects import FolderObjects
from stratamq.tiering.cold.readers import ParquetReaders
from stratamq.tiering.cold.shared import Shared
from stratamq.wire.kafka.records import read_header, walk
from tests.tiering.cold.files import Folder, plain, store_file
from tests.waiting import let_run_here, wait_until

MIB = 1 << 20
EVERYTHING = 1 << 62
BATCHES = plain(150, value_bytes=20_000)
LOG = b"".join(BATCHES)


@pytest.fixture
async def file(tmp_path: Path) -> TierFile:
    return await store_file(Folder(tmp_path), BATCHES, row_group_bytes=2 * MIB)


class Watch:
    """What was opened and unpacked, and by which thread."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.opened: Counter[int] = Counter()
        self.unpacked: Counter[int] = Counter()
        self.threads: set[str] = set()
        group, add = ColdFile.group, ValuePages._add

        def counted_group(file: ColdFile, number: int) -> RowGroup:
            self.opened[number] += 1
            return group(file, number)

        def counted_add(pages: ValuePages, page: object, packed: memoryview) -> None:
            self.unpacked[page.position] += 1  # type: ignore[attr-defined]
            self.threads.add(threading.current_thread().name)
            add(pages, page, packed)  # type: ignore[arg-type]

        patch.setattr(ColdFile, "group", counted_group)
        patch.setattr(ValuePages, "_add", counted_add)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


@pytest.fixture
def ahead() -> Iterator[Ahead]:
    made = Ahead(2, 32)
    yield made
    made.close()


def in_order(readers: ParquetReaders, file: TierFile, max_bytes: int = MIB) -> bytes:
    offset, found = 0, b""
    while data := readers.read(file, offset, max_bytes, EVERYTHING):
        found += data
        offset = walk(data)[-1].last_offset + 1
    return found


def readers_of(folder: Path, ahead: Ahead, **limits: int) -> ParquetReaders:
    return ParquetReaders(FolderObjects(folder), ahead, ColdLimits(**limits))


def test_a_reader_in_order_unpacks_each_row_group_once_and_mostly_ahead(
    tmp_path: Path, file: TierFile, watch: Watch, ahead: Ahead
) -> None:
    readers = readers_of(tmp_path, ahead)
    assert in_order(readers, file) == LOG
    assert len(watch.opened) >= 5
    assert set(watch.opened.values()) == {1}
    assert set(watch.unpacked.values()) == {1}
    assert any(name.startswith("cold-ahead") for name in watch.threads)
    assert readers.size_bytes <= 7 * MIB, "what was read through is let go"


def test_readers_at_the_same_place_share_what_is_unpacked(
    tmp_path: Path, file: TierFile, watch: Watch, ahead: Ahead
) -> None:
    readers = readers_of(tmp_path, ahead)
    with ThreadPoolExecutor(6) as pool:
        reads = [pool.submit(readers.read, file, 0, 1, EVERYTHING) for _ in range(12)]
        assert {read.result() for read in reads} == {BATCHES[0]}
    assert watch.opened == {0: 1}
    assert set(watch.unpacked.values()) == {1}


def test_a_row_group_stays_while_another_reader_is_in_it(
    tmp_path: Path, file: TierFile, watch: Watch, ahead: Ahead
) -> None:
    readers = readers_of(tmp_path, ahead)
    readers.read(file, 0, 1, EVERYTHING)
    assert in_order(readers, file) == LOG
    readers.read(file, read_header(BATCHES[1]).base_offset, 1, EVERYTHING)
    assert watch.opened[0] == 1


def test_memory_is_bounded_whoever_reads_where(
    tmp_path: Path, file: TierFile, ahead: Ahead
) -> None:
    readers = readers_of(tmp_path, ahead, memory_bytes=5 * MIB)
    wrong, most = [], [0]

    def work(seed: int) -> None:
        number = seed * 37
        for _ in range(300):
            number = (number + 1 + seed % 2 * 53) % len(BATCHES)
            header = read_header(BATCHES[number])
            if readers.read(file, header.base_offset, 1, EVERYTHING) != BATCHES[number]:
                wrong.append(number)
            most[0] = max(most[0], readers.size_bytes)

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(work, range(5)))
    assert not wrong
    assert most[0] <= 5 * MIB + 5 * 3 * MIB, "a row group more for each who reads"


def test_what_a_read_unpacked_counts_at_once(tmp_path: Path, file: TierFile, ahead: Ahead) -> None:
    readers = readers_of(tmp_path, ahead, memory_bytes=3 * MIB)
    for offset in (0, file.end_offset // 2):
        assert readers.read(file, offset, 3 * MIB, EVERYTHING)
        assert readers.size_bytes <= 3 * MIB


def test_files_that_are_open_are_bounded(tmp_path: Path, file: TierFile, ahead: Ahead) -> None:
    shared: Shared[int, int] = Shared(lambda _: 1, 3)
    assert [shared.get(number, lambda: 7) for number in range(9)] == [7] * 9
    assert shared.total == 3


def test_a_value_is_made_once_and_a_failure_is_not_kept() -> None:
    shared: Shared[str, int] = Shared(lambda _: 1, 3)
    begun, gate, made = threading.Event(), threading.Event(), []

    def slow() -> int:
        begun.set()
        gate.wait(10)
        made.append(1)
        if len(made) == 1:
            raise StoreUnavailable("down")
        return 5

    with ThreadPoolExecutor(4) as pool:
        waits = [pool.submit(shared.get, "a", slow) for _ in range(4)]
        begun.wait(10)
        wait_until(lambda: all(wait.running() for wait in waits))
        let_run_here()
        gate.set()
        failed = [wait.exception() for wait in waits]
    assert len(made) == 1
    assert all(isinstance(error, StoreUnavailable) for error in failed)
    assert shared.get("a", slow) == 5


def test_what_is_dropped_while_it_is_made_is_made_anew() -> None:
    shared: Shared[str, int] = Shared(lambda _: 1, 3)

    def first() -> int:
        shared.drop("a")
        return 1

    assert shared.get("a", first) == 1
    assert shared.get("a", lambda: 2) == 2


def test_who_reads_on_and_who_jumps() -> None:
    streams: Streams[str, str] = Streams(ends_max=3)
    assert streams.follow("a", 0, 10, "p") is None
    assert streams.follow("a", 10, 20, "q") == "p"
    assert streams.follow("a", 10, 20, "q") is None, "the same place again is no reading on"
    assert streams.follow("b", 20, 30, "r") is None
    assert streams.follow("a", 20, 30, "s") == "q"
    for number in range(100, 104):
        streams.follow("c", number * 10, number * 10 + 5, "t")
    assert streams.follow("a", 30, 40, "u") is None, "forgotten in time"


def test_work_that_does_not_fit_the_line_is_left_out() -> None:
    ahead, gate, done = Ahead(1, 2), threading.Event(), []
    accepted = [ahead.submit(lambda: (gate.wait(10), done.append(1))) for _ in range(5)]
    assert accepted == [True, True, False, False, False]
    gate.set()
    wait_until(lambda: len(done) == 2 and ahead.submit(lambda: done.append(2)))
    ahead.close()
    assert not ahead.submit(lambda: done.append(3))
    assert done[:2] == [1, 1]
    assert 3 not in done


def test_failures_ahead_are_for_those_who_come_after(caplog: pytest.LogCaptureFixture) -> None:
    ahead = Ahead(1, 4)

    def down() -> None:
        raise StoreUnavailable("down")

    def broken() -> None:
        raise ZeroDivisionError

    assert ahead.submit(down)
    assert ahead.submit(broken)
    done = threading.Event()
    assert ahead.submit(done.set)
    assert done.wait(20)
    ahead.close()
    assert "reading ahead failed" in caplog.text
    assert "down" not in caplog.text
