"""Where no descriptor is left, calls are refused by name, nothing is poisoned, and they succeed
again once there is one. What engines make of it: `tests/engine/test_descriptors.py`."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import pytest

from stratamq.log.names import LOG, segment_file
from stratamq.model.errors import TooManyOpenFiles
from stratamq.model.types import Offset
from tests.log.rig import Rig
from tests.log.scenarios import Scenario
from tests.log.support import FOLDER
from tests.log.test_disk_full import WRITERS, goes_on
from tests.twins.disk import Power
from tests.twins.kv import Loss

pytestmark = pytest.mark.usefixtures("dense_points")


def missing(calls: Iterator[int], chosen: Callable[[int], bool], path: Path) -> OSError | None:
    if chosen(next(calls)):
        return OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
    return None


def starved(scenario: Scenario) -> Iterator[Rig]:
    """The machine after one call found no descriptor, at each in turn that may need one."""
    before = Rig.new()
    scenario.before(before.open())
    for number in count():
        rig = before.fork().open()
        calls = count()
        rig.disk.open_trouble = partial(missing, calls, number.__eq__)
        try:
            scenario.during(rig)
        except TooManyOpenFiles:
            rig.disk.open_trouble = lambda path: None
            yield rig
        if next(calls) <= number:
            return


@pytest.mark.parametrize("scenario", WRITERS, ids=str)
def test_every_call_that_needs_a_descriptor_may_find_none(scenario: Scenario) -> None:
    rigs = list(starved(scenario))
    assert len(rigs) > 3
    for rig in rigs:
        goes_on(rig)


def test_a_lack_that_lasts_is_no_worse() -> None:
    rig = Rig.new().open()
    rig.commit(2)
    rig.disk.open_trouble = partial(missing, count(), lambda _: True)
    for _ in range(3):
        with pytest.raises(TooManyOpenFiles):
            rig.append(1)
    rig.disk.open_trouble = lambda path: None
    goes_on(rig)


def test_a_segment_that_was_not_begun_leaves_no_name() -> None:
    """Its file was made, and the folder could not be synced. The segment before it goes on, past
    the name: a power cut must not bring that back."""
    before = Rig.new().open()
    before.commit(3)
    new = FOLDER / segment_file(Offset(4), LOG)
    for seed in range(20):
        rig = before.fork().open()
        rig.commit(1)
        disk = rig.disk
        disk.open_trouble = lambda path, disk=disk: (  # type: ignore[misc]
            missing(count(), lambda _: True, path) if path == FOLDER and disk.exists(new) else None
        )
        with pytest.raises(TooManyOpenFiles):
            rig.roll()
        disk.open_trouble = lambda path: None
        rig.commit(2)
        again = rig.after_crash(Power.TORN, Loss.NOTHING, Random(seed)).open()
        again.ledger.check(again.log)


# -- in a process of its own ---------------------------------------------------------------------

LIMITED = """
import os, resource, sys
from pathlib import Path
from stratamq.log.disk import RealDisk, read_all, write_new
from stratamq.log.kv import RocksKV
from stratamq.log.names import LOG, segment_file
from stratamq.model.errors import TooManyOpenFiles
from stratamq.model.types import Offset
from tests.engine.starving import Hog

folder = Path(sys.argv[1])
"""

EVICTING = """
disk = RealDisk()
for number in range(12):
    write_new(disk, folder / f"{number}", b"%d" % number)
hog = Hog()
hog.take()
write_new(disk, folder / "new", b"new")  # in the place of some that were only kept for later
disk.sync_folder(folder)
assert len(disk.names(folder)) == 13
assert [read_all(disk, folder / f"{number}") for number in range(12)] == [
    b"%d" % number for number in range(12)
]
held = [disk.open(folder / f"{number}") for number in range(12)]
hog.take()
try:
    disk.open(folder / "missing", create=True)
except OSError as error:
    assert error.errno == 24
else:
    raise AssertionError("files that readers hold are not closed")
assert [file.read(9, 0) for file in held] == [b"%d" % number for number in range(12)]
hog.give_back()
disk.open(folder / "missing", create=True)
"""

HEALING = """
import gc
gc.disable()  # an error must not depend on it to let go of the store
kv = RocksKV(folder / "kv", *sys.argv[2:])
written = 0

def write() -> None:
    global written
    batch = kv.batch()
    batch.put(b"%09d" % written, bytes(200_000))
    kv.write(batch)
    written += 1

hog = Hog()
hog.take()
refused = 0
for _ in range(60):
    try:
        write()
    except TooManyOpenFiles:
        refused += 1
assert refused > 3, refused
hog.give_back()
write()
assert [key for key, _ in kv.scan(b"0", b"9")] == [b"%09d" % at for at in range(written)]
kv.close()
"""


def run(code: str, *args: object) -> None:
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    command = [sys.executable, "-c", LIMITED + code, *map(str, args)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


def test_files_that_are_only_kept_for_later_make_place(tmp_path: Path) -> None:
    run(EVICTING, tmp_path)


@pytest.mark.parametrize("family", ["default", "broker"])
def test_a_key_value_store_is_writable_again_by_itself(tmp_path: Path, family: str) -> None:
    """RocksDB alone would refuse every write until the process ends."""
    run(HEALING, tmp_path, family)
