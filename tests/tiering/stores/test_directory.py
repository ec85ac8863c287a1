"""The folder: what a crash leaves, what damage does, and what the operating system refuses."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stratamq.model.errors import (
    CorruptObject,
    ObjectExists,
    ObjectNotFound,
    StoreDenied,
    StoreUnavailable,
)
from stratamq.tiering.stores import directory
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions
from stratamq.tiering.stores.store import Store

MIB = 1 << 20
DATA = os.urandom(MIB + 100)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
async def store(directory_options: StoreOptions) -> AsyncIterator[Store]:
    opened = await open_store(directory_options)
    yield opened
    await opened.close()


async def test_an_object_is_a_file_that_anybody_can_read(store: Store, folder: Path) -> None:
    await store.put("t/date=2026-01-01/0.parquet", DATA)
    assert (folder / "t" / "date=2026-01-01" / "0.parquet").read_bytes() == DATA
    assert names_in(folder / ".uploads") == set()


async def test_an_upload_that_is_under_way_is_not_swept(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even by a sweep of everything, as with `tier.orphan.grace.ms=0`, and of another process,
    for which another instance stands."""
    name = directory.DirectoryBackend._name

    def sweep_before(self: Any, *arguments: Any) -> None:
        for one in (self, directory.DirectoryBackend(folder)):
            assert one.sweep(int(time.time() * 1000) + 60_000) == 0
        name(self, *arguments)

    monkeypatch.setattr(directory.DirectoryBackend, "_name", sweep_before)
    await store.put("k", DATA)
    assert await store.get_range("k", 0, 9) == DATA[:9]


@pytest.mark.parametrize("at", [0, MIB - 1, MIB, len(DATA) - 1])
async def test_damage_is_found(store: Store, folder: Path, at: int) -> None:
    await store.put("k", DATA)
    with (folder / "k").open("r+b") as file:
        file.seek(at)
        file.write(bytes([DATA[at] ^ 1]))
    with pytest.raises(CorruptObject):
        await store.get_range("k", at, at + 1)
    intact = 0 if at >= MIB else MIB
    assert await store.get_range("k", intact, intact + 9) == DATA[intact : intact + 9]


async def test_a_file_cut_short_is_found(store: Store, folder: Path) -> None:
    info = await store.put("k", DATA)
    os.truncate(folder / "k", MIB)
    with pytest.raises(CorruptObject):
        await store.head("k")
    with pytest.raises(CorruptObject):
        await store.get_range("k", 0, len(DATA), info=info)


async def test_files_of_others_are_read_unchecked(store: Store, folder: Path) -> None:
    (folder / "theirs").write_bytes(DATA)
    info = await store.head("theirs")
    assert (info.size, info.sums, info.crc32c) == (len(DATA), None, None)
    assert await store.get_range("theirs", 5, 9) == DATA[5:9]


async def test_what_a_crash_leaves_is_not_seen_and_is_swept_after_its_time(
    store: Store, folder: Path
) -> None:
    (folder / ".uploads" / "half").write_bytes(b"half")
    assert [each.key async for each in store.list()] == []
    now_ms = int(time.time() * 1000)
    assert await store.sweep(now_ms - 60_000) == 0
    assert await store.sweep(now_ms + 60_000) == 1
    assert names_in(folder / ".uploads") == set()


class Calls:
    """The order of what is done to files and names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.made: list[str] = []
        self._folder = folder
        self._wrap(monkeypatch, "fsync", lambda n: Path(f"/proc/self/fd/{n}").readlink())
        self._wrap(monkeypatch, "replace", lambda _, to: to)
        self._wrap(monkeypatch, "link", lambda _, to: to)

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, name: str, path_of: Any) -> None:
        real = getattr(os, name)

        def call(*given: Any) -> Any:
            path = path_of(*given).relative_to(self._folder)
            shown = ".uploads/x" if path.parts[:1] == (".uploads",) else str(path)
            self.made.append(f"{name} {shown}")
            return real(*given)

        monkeypatch.setattr(directory.os, name, call)


@pytest.mark.parametrize(("if_absent", "named"), [(False, "replace"), (True, "link")])
async def test_bytes_are_synced_before_they_have_a_name_and_names_after(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, if_absent: bool, named: str
) -> None:
    calls = Calls(monkeypatch, folder)
    await store.put("a/b/k", DATA, if_absent=if_absent)
    assert calls.made == [
        "fsync .uploads/x",
        "fsync .",  # a
        "fsync a",  # a/b
        f"{named} a/b/k",
        "fsync a/b",
    ]
    calls.made.clear()
    await store.delete("a/b/k")
    assert calls.made == ["fsync a/b"]


async def test_folders_that_become_empty_go(store: Store, folder: Path) -> None:
    await store.put("a/b/c", b"")
    await store.put("a/d", b"")
    await store.delete("a/b/c")
    assert names_in(folder) == {".uploads", "a"}
    assert names_in(folder / "a") == {"d"}


async def test_an_object_is_no_folder(store: Store) -> None:
    await store.put("a/b", b"")
    for key in ("a", "a/b/c"):
        with pytest.raises(ObjectExists):
            await store.put(key, b"")
        with pytest.raises(ObjectNotFound):
            await store.head(key)


async def test_a_full_disk_is_retriable_and_leaves_nothing(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(directory.os, "fsync", full)
    with pytest.raises(StoreUnavailable, match="No space"):
        await store.put("k", DATA)
    assert [each.key async for each in store.list()] == []
    assert names_in(folder / ".uploads") == set()


async def test_a_store_whose_disk_is_not_mounted_is_down(store: Store, folder: Path) -> None:
    (folder / ".uploads").rmdir()
    with pytest.raises(StoreUnavailable):
        await store.put("k", b"")
    assert names_in(folder) == set(), "nothing is put beside the missing disk"


async def test_a_folder_that_was_there_is_not_made_anew(directory_options: StoreOptions) -> None:
    with pytest.raises(StoreUnavailable, match="is not there"):
        await open_store(directory_options, may_be_new=False)
    await (await open_store(directory_options)).close()
    await (await open_store(directory_options, may_be_new=False)).close()


async def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((StoreDenied, ObjectNotFound)):
        await open_store(StoreOptions(url=(tmp_path / "file" / "store").as_uri()))


async def test_without_extended_attributes_sums_are_worked_out(
    directory_options: StoreOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(directory.os, "setxattr")
    store = await open_store(directory_options)
    info = await store.put("k", DATA)
    assert await store.head("k") == info
    assert info.crc32c is not None
    assert await store.get_range("k", 7, 99) == DATA[7:99]
    await store.close()
