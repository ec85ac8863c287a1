"""The block cache: exact bytes, one request for many readers, and nothing kept that was wrong."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.lake.parquet.sources import Span
from stratamq.meta.tier.files import TierObject
from stratamq.model.errors import StoreUnavailable
from stratamq.tiering.cold.block_files import HEAD, BlockFiles, BlockName
from stratamq.tiering.cold.cache import REQUEST_BYTES, BlockCache

MIB = 1 << 20
SIZE = 6 * MIB + 12345
DATA = random.Random(1).randbytes(SIZE)
TARGET = TierObject("t/data/one.parquet", SIZE, 0)


class Fetcher:
    """Gives ranges of DATA, when it is let; notes what was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.pool = ThreadPoolExecutor(8)

    def __call__(self, target: TierObject, start: int, stop: int) -> Future[bytes]:
        self.asked.append((start, stop))
        return self.pool.submit(self._read, start, stop)

    def _read(self, start: int, stop: int) -> bytes:
        self.gate.wait(10)
        if self.error:
            raise self.error
        return DATA[start:stop]


@pytest.fixture
def fetcher() -> Iterator[Fetcher]:
    made = Fetcher()
    yield made
    made.gate.set()
    made.pool.shutdown()


T = TypeVar("T")


def wait(future: Future[T]) -> T:
    return future.result(10)


def cache_of(fetcher: Fetcher, folder: Path, bytes_max: int = 100 * MIB) -> BlockCache:
    return BlockCache(fetcher, wait, BlockFiles(folder, bytes_max))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, 3 * MIB)), max_size=5))
def test_any_range_is_exact_cold_or_cached(
    tmp_path_factory: pytest.TempPathFactory, spans: list[tuple[int, int]]
) -> None:
    fetcher = Fetcher()
    cache = cache_of(fetcher, tmp_path_factory.mktemp("cache"), 4 * MIB)
    for start, size in spans + spans:
        span = Span(start, min(size, SIZE - start))
        assert cache.read(TARGET, span) == DATA[start : start + span.size]
    fetcher.pool.shutdown()


def test_neighbours_are_asked_for_together_and_once(tmp_path: Path, fetcher: Fetcher) -> None:
    cache = cache_of(fetcher, tmp_path)
    cache.read(TARGET, Span(2 * MIB + 5, 10))
    assert cache.read(TARGET, Span(0, SIZE)) == DATA
    assert fetcher.asked == [(2 * MIB, 3 * MIB), (0, 2 * MIB), (3 * MIB, SIZE)]
    assert REQUEST_BYTES >= SIZE - 3 * MIB
    cache.read(TARGET, Span(0, SIZE))
    assert len(fetcher.asked) == 3


def test_many_readers_of_a_block_make_one_request(tmp_path: Path, fetcher: Fetcher) -> None:
    cache = cache_of(fetcher, tmp_path)
    fetcher.gate.clear()
    with ThreadPoolExecutor(12) as pool:
        reads = [pool.submit(cache.read, TARGET, Span(at * 10, MIB)) for at in range(12)]
        while not all(read.running() for read in reads):
            pass
        fetcher.gate.set()
        found = [read.result(10) for read in reads]
    assert found == [DATA[at * 10 : at * 10 + MIB] for at in range(12)]
    blocks = sorted(n for a, b in fetcher.asked for n in range(a // MIB, -(-b // MIB)))
    assert blocks == [0, 1]


def test_a_failure_reaches_all_who_wait_and_is_not_kept(tmp_path: Path, fetcher: Fetcher) -> None:
    cache = cache_of(fetcher, tmp_path)
    fetcher.gate.clear()
    fetcher.error = StoreUnavailable("down")
    with ThreadPoolExecutor(3) as pool:
        reads = [pool.submit(cache.read, TARGET, Span(0, 10)) for _ in range(3)]
        while not fetcher.asked:
            pass
        fetcher.gate.set()
        for read in reads:
            with pytest.raises(StoreUnavailable):
                read.result(10)
    fetcher.error = None
    assert cache.read(TARGET, Span(0, 10)) == DATA[:10]


def test_one_who_gives_up_does_not_take_it_from_the_others(
    tmp_path: Path, fetcher: Fetcher
) -> None:
    def impatient(future: Future[T]) -> T:
        try:
            return future.result(0.05 if threading.current_thread().name == "hasty_0" else 10)
        except TimeoutError:
            future.cancel()
            raise StoreUnavailable("too slow") from None

    cache = BlockCache(fetcher, impatient, BlockFiles(tmp_path, 100 * MIB))
    fetcher.gate.clear()
    with ThreadPoolExecutor(1, "calm") as calm, ThreadPoolExecutor(1, "hasty") as hasty:
        patient = calm.submit(cache.read, TARGET, Span(0, 10))
        while not fetcher.asked:
            pass
        with pytest.raises(StoreUnavailable):
            hasty.submit(cache.read, TARGET, Span(0, 10)).result(10)
        fetcher.gate.set()
        assert patient.result(10) == DATA[:10]


def test_what_is_forgotten_is_fetched_anew(tmp_path: Path, fetcher: Fetcher) -> None:
    cache = cache_of(fetcher, tmp_path)
    cache.read(TARGET, Span(0, 2 * MIB))
    cache.forget(TARGET)
    assert not list(tmp_path.iterdir())
    assert cache.read(TARGET, Span(0, 10)) == DATA[:10]
    assert fetcher.asked == [(0, 2 * MIB), (0, MIB)]


def test_a_spoilt_block_is_fetched_again(tmp_path: Path, fetcher: Fetcher) -> None:
    cache = cache_of(fetcher, tmp_path)
    cache.read(TARGET, Span(0, 10))
    cache._recent.clear()
    path = tmp_path / BlockName(TARGET.key, 0).file_name
    data = bytearray(path.read_bytes())
    data[HEAD.size + 5] ^= 1
    path.write_bytes(data)
    assert cache.read(TARGET, Span(0, 10)) == DATA[:10]
    assert fetcher.asked == [(0, MIB), (0, MIB)]


def test_loading_ahead_leaves_out_what_is_there_and_what_lies_behind_the_end(
    tmp_path: Path, fetcher: Fetcher
) -> None:
    cache = cache_of(fetcher, tmp_path)
    cache.read(TARGET, Span(4 * MIB, 1))
    cache.load(TARGET, Span(3 * MIB, 100 * MIB))
    cache.load(TARGET, Span(SIZE, 5))
    assert fetcher.asked == [(4 * MIB, 5 * MIB), (3 * MIB, 4 * MIB), (5 * MIB, SIZE)]
    assert cache.read(TARGET, Span(3 * MIB, SIZE - 3 * MIB)) == DATA[3 * MIB :]
    assert len(fetcher.asked) == 3


def test_without_a_cache_nothing_is_loaded_ahead(tmp_path: Path, fetcher: Fetcher) -> None:
    cache = cache_of(fetcher, tmp_path, 0)
    cache.load(TARGET, Span(0, SIZE))
    assert not fetcher.asked
    assert cache.read(TARGET, Span(5, 10)) == DATA[5:15]
