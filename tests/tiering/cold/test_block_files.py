"""Blocks on the local disk: bounded, and never believed without their checksum."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from stratamq.tiering.cold.block_files import HEAD, REST_S, TEMPORARY, BlockFiles, BlockName
from tests.waiting import let_run_here

SIZE = 1000
WHOLE = SIZE + HEAD.size


def content(name: BlockName) -> memoryview:
    return memoryview(random.Random(f"{name.key}{name.number}").randbytes(SIZE))


def names(count: int, key: str = "a/b.parquet") -> list[BlockName]:
    return [BlockName(key, number) for number in range(count)]


def put(files: BlockFiles, *wanted: BlockName) -> None:
    for name in wanted:
        files.put(name, content(name))


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_blocks_come_back_and_are_there_after_a_restart(tmp_path: Path) -> None:
    put(BlockFiles(tmp_path, 10 * WHOLE), *names(3))
    files = BlockFiles(tmp_path, 10 * WHOLE)
    assert [files.get(name) for name in names(3)] == [content(name) for name in names(3)]
    assert files.get(BlockName("a/b.parquet", 3)) is None
    assert files.get(BlockName("a/c.parquet", 0)) is None
    assert files.size_bytes == on_disk(tmp_path) == 3 * WHOLE


def test_what_was_not_used_for_longest_goes(tmp_path: Path) -> None:
    files = BlockFiles(tmp_path, 3 * WHOLE)
    first, second, third, fourth = names(4)
    put(files, first, second, third)
    files.get(first)
    put(files, fourth)
    assert [files.has(name) for name in (first, second, third, fourth)] == [True, False, True, True]
    assert on_disk(tmp_path) == files.size_bytes == 3 * WHOLE


def test_the_limit_holds_for_blocks_that_are_written_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = BlockFiles(tmp_path, 2 * WHOLE - 1)
    first, second = names(2)
    write = files._write

    def write_another_meanwhile(name: BlockName, data: memoryview) -> Path:
        if name == first:
            put(files, second)
        return write(name, data)

    monkeypatch.setattr(files, "_write", write_another_meanwhile)
    put(files, first)
    assert on_disk(tmp_path) == files.size_bytes == WHOLE


def test_a_smaller_limit_holds_from_the_start(tmp_path: Path) -> None:
    put(BlockFiles(tmp_path, 5 * WHOLE), *names(5))
    for number, name in enumerate(names(5)):
        os.utime(tmp_path / name.file_name, (number, number))
    files = BlockFiles(tmp_path, 2 * WHOLE)
    assert [files.has(name) for name in names(5)] == [False, False, False, True, True]
    assert on_disk(tmp_path) == 2 * WHOLE


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path, _: path.write_bytes(path.read_bytes()[:-1]),
        lambda path, _: path.write_bytes(b""),
        lambda path, _: path.write_bytes(path.read_bytes()[:-1] + b"\0\1"),
        lambda path, _: path.write_bytes(b"X" + path.read_bytes()[1:]),
        lambda path, other: path.write_bytes(other.read_bytes()),
        lambda path, _: path.unlink(),
    ],
    ids=["cut", "empty", "changed", "no magic", "another block's", "removed"],
)
def test_a_damaged_block_is_as_good_as_not_there(
    tmp_path: Path, spoil: Callable[[Path, Path], object]
) -> None:
    files = BlockFiles(tmp_path, 10 * WHOLE)
    first, second = names(2)
    put(files, first, second)
    spoil(tmp_path / first.file_name, tmp_path / second.file_name)
    assert files.get(first) is None
    assert not files.has(first)
    assert files.size_bytes == on_disk(tmp_path) == WHOLE
    put(files, first)
    assert files.get(first) == content(first)


def test_a_disk_that_refuses_turns_writing_off_for_a_while(tmp_path: Path) -> None:
    now = [0.0]
    files = BlockFiles(tmp_path, 10 * WHOLE, now=lambda: now[0])
    first, second, third = names(3)
    put(files, first)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE // 2, hard))
    try:
        put(files, second)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files.get(first) == content(first), "what is there is still read"
    assert not files.is_writing()
    put(files, third)
    assert not files.has(second)
    assert not files.has(third)
    assert files.size_bytes == on_disk(tmp_path) == WHOLE, "nothing half-written stays"
    now[0] += REST_S
    put(files, third)
    assert files.get(third) == content(third)


def test_half_a_block_of_an_earlier_process_is_removed(tmp_path: Path) -> None:
    (tmp_path / f"{TEMPORARY}1234").write_bytes(b"half")
    files = BlockFiles(tmp_path, 10 * WHOLE)
    assert files.size_bytes == on_disk(tmp_path) == 0


def test_a_folder_that_cannot_be_used_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    files = BlockFiles(tmp_path / "file", 10 * WHOLE)
    put(files, *names(1))
    assert files.get(names(1)[0]) is None
    assert not files.is_writing()


def test_a_block_over_the_limit_is_not_kept(tmp_path: Path) -> None:
    files = BlockFiles(tmp_path, WHOLE - 1)
    put(files, *names(1))
    assert files.size_bytes == on_disk(tmp_path) == 0


def test_the_limit_holds_under_load(tmp_path: Path) -> None:
    files = BlockFiles(tmp_path, 20 * WHOLE)
    wrong = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(500):
            name = BlockName("k", rng.randrange(60))
            if (found := files.get(name)) is None:
                put(files, name)
            elif found != content(name):
                wrong.append(name)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert files.size_bytes <= 20 * WHOLE
    assert on_disk(tmp_path) <= 20 * WHOLE
    assert len(list(tmp_path.iterdir())) == len(files._sizes)


CHILD = """
import sys
from pathlib import Path
from tests.tiering.cold.test_block_files import WHOLE, content
from stratamq.tiering.cold.block_files import BlockFiles, BlockName
files = BlockFiles(Path(sys.argv[1]), 30 * WHOLE)
print("ready", flush=True)
number = 0
while True:
    name = BlockName("k", number % 90)
    files.put(name, content(name))
    number += 1
"""


@pytest.mark.parametrize("seed", range(3))
def test_a_process_killed_while_it_writes_leaves_whole_blocks(tmp_path: Path, seed: int) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout
    child.stdout.readline()
    let_run_here(0.05 + 0.03 * seed)
    child.kill()
    child.wait()
    child.stdout.close()
    files = BlockFiles(tmp_path, 30 * WHOLE)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(TEMPORARY)]
    held = [name for name in names(90, "k") if files.has(name)]
    assert held
    assert [files.get(name) for name in held] == [content(name) for name in held]
    assert files.size_bytes == on_disk(tmp_path) <= 30 * WHOLE
