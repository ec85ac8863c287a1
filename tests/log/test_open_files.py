"""Open files of the real disk: bounded, never of a file that its path does not mean any more, and
closed with their last reader, whatever threads do."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from shutil import rmtree

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stratamq.log.disk import RealDisk, read_all, replace_file, write_new
from stratamq.log.names import LOG, segment_file
from stratamq.log.open_files import OpenFiles
from tests.log.support import NOW, batches_from, commit, open_log, read_log
from tests.twins.kv import SimKV
from tests.waiting import every


def open_below(folder: Path) -> list[str]:
    """Files below a folder that this process has open, as the kernel names them: a removed one ends
    with `(deleted)`."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            name = str(entry.readlink())
        except FileNotFoundError:  # the descriptor of this very listing
            continue
        if name.startswith(f"{folder}{os.sep}"):
            found.append(name)
    return found


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number:03}" for number in range(60)]
    for path in paths:
        path.write_bytes(path.name.encode() * 100)
    return paths


# -- limits --------------------------------------------------------------------------------------


def test_open_files_are_bounded(files: list[Path], tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=8)
    for path in every(files):
        assert disk.open(path).read(3, 0) == path.name.encode()
    assert len(open_below(tmp_path)) == 8


def test_maps_are_bounded_with_them(files: list[Path], tmp_path: Path) -> None:
    """A map keeps a descriptor for as long as it lives."""
    disk = RealDisk(open_files_max=8)
    for path in every(files):
        assert bytes(disk.map(path)[:3]) == path.name.encode()
        disk.open(path)
    assert len(open_below(tmp_path)) == 8


def test_the_files_used_last_stay_open(files: list[Path]) -> None:
    disk = RealDisk(open_files_max=4)
    kept = disk.open(files[0])
    for path in every(files[1:]):
        disk.open(path)
        assert disk.open(files[0]) is kept


def test_a_file_that_is_not_there_takes_no_place(files: list[Path], tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=4)
    kept = disk.open(files[0])
    for number in range(20):
        with pytest.raises(FileNotFoundError):
            disk.open(tmp_path / f"missing-{number}")
    disk.open(files[1])
    assert disk.open(files[0]) is kept


def test_a_log_of_many_segments_stays_within_its_open_files(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=6)
    log = open_log(disk, SimKV(), tmp_path / "shard")
    for number in range(30):
        commit(log, batches_from(number * 2, (1, 1)))
        log.roll()
    assert len(read_log(log).batches) == 60
    assert len(log.segments()) == 31
    assert log.floor_by_timestamp(NOW) == 0
    assert len(open_below(tmp_path)) <= 6


def test_a_log_that_is_opened_opens_the_files_it_writes_to(tmp_path: Path) -> None:
    """Sealed segments are opened by their first reader."""
    kv = SimKV()
    log = open_log(RealDisk(), kv, tmp_path / "shard")
    for number in range(30):
        commit(log, batches_from(number * 2, (1, 1)))
        log.roll()
    log.close()
    del log
    assert not open_below(tmp_path)
    again = open_log(RealDisk(), kv, tmp_path / "shard")
    segments = [name for name in open_below(tmp_path) if Path(name).suffix]
    assert segments == [str(tmp_path / "shard" / segment_file(again.end_offset, LOG))]


# -- one thread, against a naive model -----------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "in/a", "in/b", "out/a"])
FOLDERS = st.sampled_from(["in", "out"])
FILES_MAX = 3


class CacheMachine(RuleBasedStateMachine):
    """The model is a dict of contents. What a reader holds stays what it was when it was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="stratamq-open-files-"))
        self.disk = RealDisk(FILES_MAX)
        self.content: dict[str, bytes] = {}
        self.held: list[tuple[Callable[[], bytes], bytes]] = []
        self.versions = 0
        for folder in ("in", "out"):
            self.disk.make_folder(self.root / folder)

    def teardown(self) -> None:
        self.held.clear()
        rmtree(self.root)

    @rule(name=NAMES)
    def write(self, name: str) -> None:
        self.versions += 1
        data = b"%04d" % self.versions
        if name in self.content:
            self.disk.unlink(self.root / name)  # what readers hold does not change
        write_new(self.disk, self.root / name, data)
        self.content[name] = data

    @rule(name=NAMES)
    def unlink(self, name: str) -> None:
        self.disk.unlink(self.root / name)
        self.content.pop(name, None)

    @precondition(lambda self: self.content)
    @rule(data=st.data(), new=NAMES)
    def rename(self, data: st.DataObject, new: str) -> None:
        source = data.draw(st.sampled_from(sorted(self.content)))
        if source != new:
            self.disk.rename(self.root / source, self.root / new)
            self.content[new] = self.content.pop(source)

    @rule(folder=FOLDERS)
    def remove_folder(self, folder: str) -> None:
        self.disk.remove_folder(self.root / folder)
        self.disk.make_folder(self.root / folder)
        for name in [name for name in self.content if name.startswith(f"{folder}/")]:
            del self.content[name]

    @rule()
    def rename_folder(self) -> None:
        """`in` becomes `out`, and a new `in` takes its place."""
        self.disk.remove_folder(self.root / "out")
        self.disk.rename(self.root / "in", self.root / "out")
        self.disk.make_folder(self.root / "in")
        moved = {
            f"out/{name[3:]}": data for name, data in self.content.items() if name[:3] == "in/"
        }
        kept = {name: data for name, data in self.content.items() if "/" not in name}
        self.content = kept | moved

    @precondition(lambda self: self.content)
    @rule(data=st.data(), mapped=st.booleans())
    def hold(self, data: st.DataObject, mapped: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.content)))
        path = self.root / name
        read = partial(bytes, self.disk.map(path))
        if not mapped:
            read = partial(self.disk.open(path).read, 10, 0)
        self.held.append((read, self.content[name]))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))

    @rule(name=NAMES, mapped=st.booleans())
    def read(self, name: str, mapped: bool) -> None:
        path = self.root / name
        if name not in self.content:
            with pytest.raises(FileNotFoundError):
                self.disk.map(path) if mapped else self.disk.open(path)
            return
        found = bytes(self.disk.map(path)) if mapped else read_all(self.disk, path)
        assert found == self.content[name]

    @invariant()
    def readers_keep_what_they_hold(self) -> None:
        for read, data in self.held:
            assert read() == data

    @invariant()
    def only_readers_keep_removed_files_open(self) -> None:
        found = open_below(self.root)
        assert len(found) <= FILES_MAX + len(self.held)
        assert sum(name.endswith(" (deleted)") for name in found) <= len(self.held)


TestCache = CacheMachine.TestCase
TestCache.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking files takes minutes
)


# -- two threads, step by step -------------------------------------------------------------------


def test_a_file_that_was_opened_before_its_path_changed_is_not_found(tmp_path: Path) -> None:
    """Its path changes, and is forgotten, between opening it and keeping it."""
    cache: OpenFiles[str] = OpenFiles(4)

    def opening() -> str:
        cache.forget("path")
        return "what it meant before"

    assert cache.add(("path", False), opening) == "what it meant before"
    assert cache.find(("path", False)) is None
    assert cache.add(("path", False), lambda: "what it means now") == "what it means now"
    assert cache.find(("path", False)) == "what it means now"


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("change", ["unlink", "replace", "rmdir"])
def test_a_reader_that_opens_a_file_just_before_it_goes_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, mapped: bool
) -> None:
    disk, folder = RealDisk(), tmp_path / "folder"
    disk.make_folder(folder)
    for name in ("file", "new"):
        write_new(disk, folder / name, name.encode())
    opened: list[Path] = []

    def read(path: Path) -> None:
        if not opened and path.exists():
            opened.append(path)
            disk.map(path) if mapped else disk.open(path)

    real_unlink, real_replace = Path.unlink, os.replace

    def unlink(path: Path, missing_ok: bool = False) -> None:
        read(path)
        real_unlink(path, missing_ok)

    def replace(path: Path, target: Path) -> None:
        read(target)
        real_replace(path, target)

    monkeypatch.setattr(Path, "unlink", unlink)
    monkeypatch.setattr(os, "replace", replace)
    if change == "unlink":
        disk.unlink(folder / "file")
    elif change == "replace":
        disk.rename(folder / "new", folder / "file")
    else:
        disk.remove_folder(folder)
    assert opened
    assert not [name for name in open_below(tmp_path) if name.endswith(" (deleted)")]


# -- many threads --------------------------------------------------------------------------------


def run_threads(works: list[Callable[[], None]]) -> None:
    """All at once; the first failure of any of them is raised."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switching")
def test_eviction_under_many_readers(files: list[Path], tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=5)

    def work(seed: int) -> None:
        rng = Random(seed)
        for _ in range(1500):
            path = rng.choice(files)
            file = disk.open(path) if rng.random() < 0.7 else None
            data = file.read(3, 30) if file else bytes(disk.map(path)[30:33])
            assert data == path.name.encode()

    run_threads([partial(work, seed) for seed in range(4)])
    assert len(open_below(tmp_path)) <= 5


class Versions:
    """A path whose content counts up, by each way there is to give a path another meaning."""

    def __init__(self, disk: RealDisk, root: Path) -> None:
        self.disk, self.root = disk, root
        self.path = root / "folder" / "file"
        self.newest = 0
        self._put(self.path, 0)

    def _put(self, path: Path, version: int) -> None:
        self.disk.make_folder(path.parent)
        write_new(self.disk, path, b"%08d" % version)

    def change(self, rng: Random) -> None:
        """Readers may see the next version while this runs, and see no older one afterwards."""
        version, kind = self.newest + 1, rng.randrange(4)
        folder = self.path.parent
        if kind == 0:
            replace_file(self.disk, self.path, b"%08d" % version)
        elif kind == 1:
            self.disk.unlink(self.path)
            self._put(self.path, version)
        elif kind == 2:
            self.disk.remove_folder(folder)
            self._put(self.path, version)
        else:
            self._put(self.root / "next" / "file", version)
            self.disk.rename(folder, self.root / "gone")
            self.disk.rename(self.root / "next", folder)
            self.disk.remove_folder(self.root / "gone")
        self.newest = version

    def check(self, rng: Random) -> None:
        """A file that was just made may be empty, and one that was just removed is missing."""
        least = self.newest
        try:
            if rng.random() < 0.5:
                found = read_all(self.disk, self.path)
            else:
                found = bytes(self.disk.map(self.path))
        except FileNotFoundError:
            return
        if found:
            assert int(found) >= least


@pytest.mark.usefixtures("eager_switching")
def test_no_thread_finds_what_a_path_meant_before(tmp_path: Path) -> None:
    """A reader that opens a file while its path changes must not leave the old one in the cache,
    neither for others nor for ever."""
    disk = RealDisk(open_files_max=3)
    watched = [Versions(disk, tmp_path / f"{number}") for number in range(2)]
    done = threading.Event()

    def read(seed: int) -> None:
        rng = Random(seed)
        while not done.is_set():
            rng.choice(watched).check(rng)

    def write(one: Versions, seed: int) -> None:
        rng = Random(seed)
        try:
            for _ in range(150):
                one.change(rng)
        finally:
            done.set()

    readers = [partial(read, seed) for seed in range(3)]
    run_threads([*readers, *(partial(write, one, 9) for one in watched)])
    for one in watched:
        assert int(read_all(disk, one.path)) == one.newest
    assert not [name for name in open_below(tmp_path) if name.endswith(" (deleted)")]


def test_a_rename_or_removal_costs_what_the_folder_holds(tmp_path: Path) -> None:
    """Not a pass over all open files, of which a node has one per shard."""
    disk = RealDisk(1000)
    passes: list[str] = []
    whole = disk._cache.below
    disk._cache.below = lambda folder: passes.append(folder) or whole(folder)  # type: ignore
    disk.make_folder(tmp_path / "shard" / "inner")
    held = [disk.open(tmp_path / "shard" / name, create=True) for name in ("a", "inner/b")]
    disk.rename(tmp_path / "shard", tmp_path / "gone")
    assert len(disk._cache) == 0
    disk.make_folder(tmp_path / "shard")
    assert disk.open(tmp_path / "shard" / "a", create=True) not in held
    assert disk.open(tmp_path / "gone" / "a").size() == 0
    disk.rename(tmp_path / "gone" / "a", tmp_path / "gone" / "c")
    disk.remove_folder(tmp_path / "gone")
    disk.remove_folder(tmp_path / "gone")
    assert len(disk._cache) == 1
    assert not passes
