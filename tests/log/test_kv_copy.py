"""A copy of a store that is written to: everything that was written before, in batches that are
whole."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from stratamq.log import kv as kv_module
from stratamq.log import kv_files
from stratamq.log.kv import RocksKV
from tests.waiting import every, wait_until

FAMILY = "broker"
VALUE_BYTES = 20_000
COPIES = 8


class Writer:
    """Writes pairs of rows at full speed: large ones, so that tables are flushed and compacted all
    the time. `written` pairs are there."""

    def __init__(self, kv: RocksKV) -> None:
        self._kv, self._ends, self.written = kv, threading.Event(), 0
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _write(self) -> None:
        for number in count():
            if self._ends.is_set():
                return
            rows = self._kv.batch()
            for side in (b"a", b"b"):
                rows.put(b"%b%010d" % (side, number), os.urandom(VALUE_BYTES))
            self._kv.write(rows)
            self.written = number + 1


def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)


def never_steady(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_files, "COPY_ATTEMPTS_MAX", 0)


def links(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_checkpoint(db: object) -> None:
        raise AssertionError("it holds the GIL")

    monkeypatch.setattr(kv_module, "Checkpoint", no_checkpoint)


def sizes_in(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.iterdir()}


@pytest.mark.parametrize("way", [links, no_links, never_steady])
def test_a_copy_has_all_that_was_written_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Callable[[pytest.MonkeyPatch], None]
) -> None:
    way(monkeypatch)
    kv = RocksKV(tmp_path / "kv", FAMILY)
    before: dict[Path, int] = {}
    sizes: dict[Path, int] = {}
    with Writer(kv) as writer:
        for number in range(COPIES):
            wait_until(lambda more=writer.written + 200: writer.written >= more)
            before[tmp_path / f"copy-{number}"] = writer.written
            kv.copy_to(tmp_path / f"copy-{number}")
            sizes |= sizes_in(tmp_path / f"copy-{number}")
    kv.close()
    assert {path: path.stat().st_size for path in sizes} == sizes, "no table is still written"
    for path, written in every(before.items()):
        copy = RocksKV(path, FAMILY, check_rows=True)
        found = [[int(key[1:]) for key, _ in copy.scan(side, side + b":")] for side in (b"a", b"b")]
        copy.close()
        assert found[0] == found[1] == list(range(len(found[0])))
        assert len(found[0]) >= written


@pytest.mark.parametrize("end", [b"", kv_files.TABLE_END])
def test_a_copy_stays_as_it_was_whatever_is_written_to_unfinished_tables(
    tmp_path: Path, end: bytes
) -> None:
    """Records may end like a table, too."""
    kv = RocksKV(tmp_path / "kv", FAMILY)
    unfinished = tmp_path / "kv" / "999999.sst"
    unfinished.write_bytes(b"records" + end)
    kv.copy_to(tmp_path / "copy")
    sizes = sizes_in(tmp_path / "copy")
    assert (tmp_path / "copy" / unfinished.name in sizes) == bool(end)
    with unfinished.open("ab") as table:
        table.write(b"more")
    assert sizes_in(tmp_path / "copy") == sizes
    kv.close()
    RocksKV(tmp_path / "copy", FAMILY, check_rows=True).close()
