"""History on an S3 store over HTTP: cached, coalesced, and honest when the store fails."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from stratamq.meta.tier.files import TierFile
from stratamq.model.errors import Closed, CorruptRecord, StoreUnavailable
from stratamq.model.types import Offset
from stratamq.tiering.cold.block_files import HEAD, MAGIC, TEMPORARY, BlockName
from stratamq.tiering.cold.history import ShardHistory
from stratamq.tiering.cold.limits import ColdLimits
from stratamq.tiering.cold.reads import CACHE_FOLDER, ColdReads
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions
from stratamq.tiering.stores.s3.client import make_client
from stratamq.wire.kafka.records import read_header, walk
from tests.tiering.cold.files import SHARD, plain, store_file
from tests.tiering.stores.conftest import KEY_ID, LIMITS, SECRET
from tests.tiering.stores.proxy import Fault, Message, Proxy, proxy_to
from tests.waiting import let_run, until

MIB = 1 << 20
EVERYTHING = Offset(1 << 62)
FORMATS = ("parquet", "log")
BATCHES = plain(60, value_bytes=20_000)
"""Some six megabytes, hardly compressible."""


class Cold(NamedTuple):
    history: ShardHistory
    file: TierFile
    proxy: Proxy
    reads: ColdReads

    def gets(self) -> list[str]:
        return [one for one in self.proxy.passed if one.startswith("GET")]


class Stored(NamedTuple):
    options: StoreOptions
    files: dict[str, TierFile]


@pytest.fixture(scope="module")
def stored(s3_address: str) -> Stored:
    """The same bytes in each format, put into a bucket once: nothing here changes them."""
    options = StoreOptions(
        url=f"s3://cold-{os.getpid()}/history",
        s3_endpoint=s3_address,
        s3_path_style=True,
        limits=LIMITS,
    )

    async def fill() -> dict[str, TierFile]:
        client = make_client(options)
        client.create_bucket(Bucket=options.url.split("/")[2])
        client.close()
        store = await open_store(options)
        files = {
            name: await store_file(store, BATCHES, formats=name, row_group_bytes=3 * MIB)
            for name in FORMATS
        }
        await store.close()
        return files

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        return Stored(options, asyncio.run(fill()))


@asynccontextmanager
async def opened(
    stored: Stored,
    folder: Path,
    formats: str,
    limits: ColdLimits | None = None,
    timeout_ms: int = 10_000,
) -> AsyncIterator[Cold]:
    """A file on the store, and its history through a proxy that can fail."""
    options, file = stored.options, stored.files[formats]
    async with proxy_to(options.s3_endpoint) as (proxy, address):
        store_limits = replace(options.limits, attempts_max=3, timeout_ms=timeout_ms)
        store = await open_store(replace(options, s3_endpoint=address, limits=store_limits))
        reads = await ColdReads.open(store, folder, limits or ColdLimits())
        history = reads.history(SHARD)
        history.replace([file])
        try:
            yield Cold(history, file, proxy, reads)
        finally:
            await reads.close()
            await store.close()


async def read_all(history: ShardHistory, max_bytes: int = MIB) -> list[bytes]:
    offset, found = Offset(0), []
    while data := await asyncio.to_thread(history.read, offset, max_bytes, EVERYTHING):
        spans = walk(data)
        found += [data[span.position : span.position + span.size] for span in spans]
        offset = Offset(spans[-1].last_offset + 1)
    return found


def cached_bytes(folder: Path) -> int:
    """Blocks are given to their readers first, and written then."""
    paths = list((folder / CACHE_FOLDER).iterdir())
    return sum(path.stat().st_size for path in paths if not path.name.startswith(TEMPORARY))


def is_get(request: Message) -> bool:
    return request.method == "GET"


@pytest.mark.parametrize("formats", FORMATS)
async def test_history_is_read_through_the_cache(
    stored: Stored, tmp_path: Path, formats: str
) -> None:
    async with opened(stored, tmp_path, formats) as cold:
        assert await read_all(cold.history) == BATCHES
        await until(lambda: cached_bytes(tmp_path) >= sum(one.size for one in cold.file.objects))
        requests = len(cold.gets())
        assert requests <= 12
        cold.reads.parquet.clear()
        cold.reads.raw.clear()
        assert await read_all(cold.history) == BATCHES
        assert len(cold.gets()) == requests, "all of it was in the cache"
        assert cached_bytes(tmp_path) <= 8 * MIB


@pytest.mark.parametrize("formats", FORMATS)
async def test_a_small_cache_only_costs_requests(
    stored: Stored, tmp_path: Path, formats: str
) -> None:
    limits = ColdLimits(cache_bytes=2 * MIB, memory_bytes=0)
    async with opened(stored, tmp_path, formats, limits) as cold:
        for _ in range(2):
            assert await read_all(cold.history, 300_000) == BATCHES
        await asyncio.to_thread(cold.reads._ahead.close)
        assert cached_bytes(tmp_path) <= 2 * MIB


@pytest.mark.parametrize("formats", FORMATS)
async def test_many_readers_at_once_make_few_requests(
    stored: Stored, tmp_path: Path, formats: str
) -> None:
    async with opened(stored, tmp_path, formats) as cold:
        alone = read_header(BATCHES[30])
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(8) as pool:
            reads = [
                loop.run_in_executor(pool, cold.history.read, alone.base_offset, 1, EVERYTHING)
                for _ in range(8)
            ]
            assert set(await asyncio.gather(*reads)) == {BATCHES[30]}
        assert len(cold.gets()) <= 6


PASSING = [Fault.REFUSE, Fault.LOSE_ANSWER, Fault.ERROR_500, Fault.BUSY_503, Fault.TRUNCATE]


@pytest.mark.parametrize("formats", FORMATS)
@pytest.mark.parametrize("fault", [*PASSING, Fault.WRONG_ANSWER], ids=lambda fault: fault.name)
async def test_what_fails_once_is_read_all_the_same(
    stored: Stored, tmp_path: Path, formats: str, fault: Fault
) -> None:
    async with opened(stored, tmp_path, formats) as cold:
        cold.proxy.spoil([fault], only=is_get)
        assert await read_all(cold.history) == BATCHES
        assert cold.proxy.met


@pytest.mark.parametrize("formats", FORMATS)
@pytest.mark.parametrize("fault", [*PASSING, Fault.SILENCE], ids=lambda fault: fault.name)
async def test_a_store_that_is_down_is_unavailable_and_comes_back(
    stored: Stored, tmp_path: Path, formats: str, fault: Fault
) -> None:
    patience = 300 if fault is Fault.SILENCE else 10_000
    async with opened(stored, tmp_path, formats, timeout_ms=patience) as cold:
        cold.proxy.spoil(ever=fault)
        with pytest.raises(StoreUnavailable):
            await asyncio.to_thread(cold.history.read, Offset(0), 1, EVERYTHING)
        cold.proxy.spoil()
        if fault is not Fault.SILENCE:  # a busy machine is a silent store to the impatient
            assert await read_all(cold.history) == BATCHES


@pytest.mark.parametrize("formats", FORMATS)
async def test_what_is_in_the_cache_is_read_while_the_store_is_down(
    stored: Stored, tmp_path: Path, formats: str
) -> None:
    async with opened(stored, tmp_path, formats) as cold:
        await read_all(cold.history)
        await until(lambda: cached_bytes(tmp_path) >= sum(one.size for one in cold.file.objects))
        cold.reads.parquet.clear()
        cold.proxy.spoil(ever=Fault.ERROR_500)
        assert await read_all(cold.history) == BATCHES


@pytest.mark.parametrize("formats", FORMATS)
async def test_wrong_bytes_for_ever_are_damage_and_are_not_kept(
    stored: Stored, tmp_path: Path, formats: str
) -> None:
    async with opened(stored, tmp_path, formats) as cold:
        cold.proxy.spoil(ever=Fault.WRONG_ANSWER, only=is_get)
        with pytest.raises(CorruptRecord):
            await asyncio.to_thread(cold.history.read, Offset(0), 1, EVERYTHING)
        cold.proxy.spoil()
        assert await read_all(cold.history) == BATCHES


@pytest.mark.parametrize("formats", FORMATS)
async def test_a_cache_that_was_spoilt_behind_its_checksums_is_not_believed(
    stored: Stored, tmp_path: Path, formats: str
) -> None:
    """A block with the right sum and wrong bytes: as if the store had given them once."""
    async with opened(stored, tmp_path, formats) as cold:
        await read_all(cold.history)
        cold.reads.parquet.clear()
        cold.reads.raw.clear()
        target = cold.file.objects[0]
        await until(lambda: cached_bytes(tmp_path) >= target.size)
        for number in range(-(-target.size // MIB)):
            name = BlockName(target.key, number)
            path = tmp_path / CACHE_FOLDER / name.file_name
            data = bytearray(path.read_bytes()[HEAD.size :])
            data[len(data) // 2] ^= 1
            path.write_bytes(HEAD.pack(MAGIC, name.sum_of(memoryview(data))) + data)
        cold.reads.objects.cache._recent.clear()  # type: ignore[attr-defined]
        assert await read_all(cold.history, 1) == BATCHES


async def test_a_store_that_hangs_is_given_up_in_time(stored: Stored, tmp_path: Path) -> None:
    async with opened(stored, tmp_path, "parquet", ColdLimits(timeout_ms=100), 400) as cold:
        cold.proxy.spoil(ever=Fault.SILENCE)
        with pytest.raises(StoreUnavailable, match=r"within 0\.1 s"):
            await asyncio.to_thread(cold.history.read, Offset(0), 1, EVERYTHING)


async def test_shutting_down_ends_reads_that_are_under_way(stored: Stored, tmp_path: Path) -> None:
    async with opened(stored, tmp_path, "parquet", timeout_ms=2000) as cold:
        cold.proxy.spoil(ever=Fault.SILENCE)
        reads = [
            asyncio.create_task(asyncio.to_thread(cold.history.read, Offset(0), 1, EVERYTHING))
            for _ in range(3)
        ]
        await until(lambda: bool(cold.proxy.met))
        await cold.reads.close()
        for read in reads:
            with pytest.raises(Closed):
                await read
        with pytest.raises(Closed):
            await asyncio.to_thread(cold.history.read, Offset(0), 1, EVERYTHING)


@pytest.mark.parametrize("formats", FORMATS)
async def test_a_reader_that_goes_on_is_fetched_ahead_for_and_one_that_jumps_is_not(
    stored: Stored, tmp_path: Path, formats: str
) -> None:
    def cached() -> int:
        return cached_bytes(tmp_path)

    limits = ColdLimits(read_ahead_bytes=2 * MIB)
    async with opened(stored, tmp_path, formats, limits) as cold:
        for number in (0, 9, 5):
            offset = read_header(BATCHES[number]).base_offset
            await asyncio.to_thread(cold.history.read, offset, 1, EVERYTHING)
        await let_run(0.1)
        before = cached()
        assert before <= 4 * MIB
        offset = read_header(BATCHES[6]).base_offset
        await asyncio.to_thread(cold.history.read, offset, 1, EVERYTHING)
        await until(lambda: cached() >= before + MIB)
        await let_run(0.2)
        if formats == "log":
            assert cached() <= before + 3 * MIB, "no further than it was told"
