"""A disk in memory that crashes, tears, flips, fills up and fails when told to.

What it keeps apart is what a power cut keeps apart. Bytes are *durable* after `File.sync`; names
(created, renamed, removed) after `sync_folder` of the folder they are in, and nothing else: where
a real file system is kinder than POSIX promises, this one is not. After a failed sync the bytes it
was about are gone for good while reads still show them, as Linux does it: the pages count as clean
and no later sync writes them.

Every call that changes something has a number. `trouble` is asked before each and may answer with
an exception: `Crash` stops everything there, an OSError is what the caller sees.

    disk = SimDisk()
    disk.trouble = at_call(7, Crash())
    ...
    found = disk.after_crash(Power.TORN, random.Random(seed))
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from stratamq.log.disk import File
from tests.twins.inode import Change, Inode, Power

__all__ = ["Call", "Crash", "Power", "SimDisk", "SimFile", "Trouble", "at_call", "no_trouble"]


class Crash(BaseException):
    """The machine stops here. No `except Exception` and no clean-up may touch the disk after it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call that changes something."""

    number: int
    kind: str
    path: Path

    def __str__(self) -> str:
        return f"{self.number}:{self.kind}:{self.path.name}"


Trouble = Callable[[Call], BaseException | None]


def no_trouble(call: Call) -> None:
    return None


def at_call(number: int, error: BaseException) -> Trouble:
    """Trouble at this call alone."""
    return lambda call: error if call.number == number else None


Node = Inode | None
"""What a name stands for. None is a folder."""


@dataclass(frozen=True, slots=True)
class NameChange:
    """A new meaning of some names in one folder: all of it happens, or none."""

    folder: Path
    removed: tuple[Path, ...] = ()
    added: tuple[tuple[Path, Node], ...] = ()
    moved: tuple[Path, Path] | None = None

    def apply(self, names: dict[Path, Node]) -> None:
        for path in self.removed:
            names.pop(path, None)
        if self.moved:
            _move(names, *self.moved)
        names.update(self.added)


def _move(names: dict[Path, Node], source: Path, target: Path) -> None:
    """Rename a file, or a folder with all that is in it."""
    below = [path for path in names if path == source or source in path.parents]
    for path, node in [(path, names.pop(path)) for path in below]:
        names[target / path.relative_to(source)] = node


class SimFile:
    """An open file. Holds its inode, whatever becomes of its name."""

    def __init__(self, disk: SimDisk, path: Path, inode: Inode) -> None:
        self._disk, self._path, self._inode = disk, path, inode

    def read(self, size: int, position: int) -> bytes:
        self._disk.before_read(self._path)
        return bytes(memoryview(self._inode.content)[position : position + size])

    def read_at_once(self, size: int, position: int) -> bytes | None:
        data = self.read(size, position)
        return data if len(data) == size else None

    def write(self, buffers: Sequence[bytes], position: int, *, durable: bool = False) -> None:
        """A durable write can be cut off, or fail, before its sync and in it: so it is both."""
        self._write(buffers, position)
        if durable:
            self.sync()

    def _write(self, buffers: Sequence[bytes], position: int) -> None:
        data = b"".join(buffers)
        error = self._disk.ask("write", self._path)
        room = self._disk.room_for(self._inode, position, len(data))
        if error is not None:
            data = data[: int(len(data) * self._disk.written_part)]
        elif room < len(data):
            data, error = data[:room], _no_room(self._path)
        if data:
            self._inode.change(Change(position, data))
        if error is not None:
            raise error

    def sync(self) -> None:
        error = self._disk.ask("sync", self._path)
        if isinstance(error, OSError):
            self._inode.lose_pending()
        if error is not None:
            raise error
        self._inode.sync()

    def truncate(self, size: int) -> None:
        self._disk.step("truncate", self._path)
        self._inode.change(Change(size, None))

    def size(self) -> int:
        return len(self._inode.content)

    def has_name(self) -> bool:
        return self._disk.names_file(self._inode)

    def is_linked(self) -> bool:
        return False


class SimDisk:
    """See the module. Paths are absolute; the root is there."""

    def __init__(self) -> None:
        self._names: dict[Path, Node] = {Path("/"): None}
        self._durable_names: dict[Path, Node] = dict(self._names)
        self._pending_names: list[NameChange] = []
        self.calls: list[Call] = []
        self.trouble: Trouble = no_trouble
        self.read_trouble: Callable[[Path], OSError | None] = lambda path: None
        self.open_trouble: Callable[[Path], OSError | None] = lambda path: None
        """Asked whenever a real disk may need a descriptor."""
        self.written_part = 0.0
        """How much of a write that fails, or is cut off by a crash, gets to the file."""
        self.capacity_bytes: int | None = None

    # -- trouble -------------------------------------------------------------------------------

    def ask(self, kind: str, path: Path) -> BaseException | None:
        call = Call(len(self.calls), kind, path)
        self.calls.append(call)
        return self.trouble(call)

    def step(self, kind: str, path: Path) -> None:
        error = self.ask(kind, path)
        if error is not None:
            raise error

    def before_read(self, path: Path) -> None:
        error = self.read_trouble(path)
        if error is not None:
            raise error

    def room_for(self, inode: Inode, position: int, size: int) -> int:
        """How many bytes of a write of `size` at `position` find a place."""
        growth = max(position + size - len(inode.content), 0)
        if self.capacity_bytes is None or not growth:
            return size
        return size - min(max(self.used_bytes() + growth - self.capacity_bytes, 0), size)

    def names_file(self, inode: Inode) -> bool:
        return any(node is inode for node in self._names.values())

    def used_bytes(self) -> int:
        return sum(len(node.content) for node in self._names.values() if node is not None)

    # -- the door ------------------------------------------------------------------------------

    def _take_descriptor(self, path: Path) -> None:
        error = self.open_trouble(path)
        if error is not None:
            raise error

    def open(self, path: Path, *, create: bool = False) -> SimFile:
        self._take_descriptor(path)
        node = self._names.get(path)
        if node is None:
            if path in self._names:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            if not create or path.parent not in self._names:
                raise _missing(path)
            self.step("create", path)
            node = Inode()
            self._change_names(NameChange(path.parent, added=((path, node),)))
        return SimFile(self, path, node)

    def at_hand(self, path: Path) -> SimFile | None:
        return self.open(path) if path in self._names else None

    def map(self, path: Path) -> bytes:
        file = self.open(path)
        return file.read(file.size(), 0)

    def size(self, path: Path) -> int:
        return len(self._inode(path).content) if path in self._names else self.open(path).size()

    def modified_ms(self, path: Path) -> int:
        return self._inode(path).modified_ms

    def set_modified(self, path: Path, modified_ms: int) -> None:
        self._inode(path).modified_ms = modified_ms

    def rename(self, source: Path, target: Path) -> None:
        if source not in self._names or target.parent not in self._names:
            raise _missing(source)
        self.step("rename", target)
        replaced = () if target not in self._names else (target,)
        self._change_names(NameChange(target.parent, replaced, moved=(source, target)))

    def unlink(self, path: Path) -> None:
        if path in self._names:
            self.step("unlink", path)
            self._change_names(NameChange(path.parent, (path,)))

    def link(self, source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "the target is on another file system", str(target))

    def make_folder(self, path: Path) -> None:
        for folder in (*reversed(path.parents), path):
            if folder not in self._names:
                self.step("mkdir", folder)
                self._change_names(NameChange(folder.parent, added=((folder, None),)))

    def remove_folder(self, path: Path) -> None:
        """Name by name, the deepest first: a crash may leave any of them."""
        below = [found for found in self._names if found == path or path in found.parents]
        for found in sorted(below, key=lambda found: (-len(found.parts), found)):
            self.step("remove", found)
            self._change_names(NameChange(found.parent, (found,)))

    def names(self, folder: Path) -> list[str]:
        self._take_descriptor(folder)
        if folder not in self._names:
            raise _missing(folder)
        return [path.name for path in self._names if path.parent == folder and path != folder]

    def exists(self, path: Path) -> bool:
        return path in self._names

    def is_folder(self, path: Path) -> bool:
        return path in self._names and self._names[path] is None

    def is_file(self, path: Path) -> bool:
        return self._names.get(path) is not None

    def sync_folder(self, path: Path) -> None:
        self._take_descriptor(path)
        if path not in self._names:
            raise _missing(path)
        self.step("sync_folder", path)
        kept: list[NameChange] = []
        for change in self._pending_names:
            if change.folder == path:
                change.apply(self._durable_names)
            else:
                kept.append(change)
        self._pending_names = kept

    def sync_all(self, files: Sequence[File]) -> list[OSError | None]:
        """A real disk syncs them in any order: here in one that differs from call to call."""
        errors: list[OSError | None] = [None] * len(files)
        order = list(range(len(files)))
        Random(len(self.calls)).shuffle(order)
        for number in order:
            try:
                files[number].sync()
            except OSError as error:
                errors[number] = error
        return errors

    def sync_folders(self, paths: Sequence[Path]) -> None:
        for path in paths:
            self.sync_folder(path)

    def _change_names(self, change: NameChange) -> None:
        change.apply(self._names)
        self._pending_names.append(change)

    # -- afterwards ----------------------------------------------------------------------------

    def copy(self) -> SimDisk:
        """Another disk in the same state: bytes, names, what is synced and what is not."""
        inodes: dict[int, Inode] = {}

        def twin(node: Node) -> Node:
            if node is None:
                return None
            if id(node) not in inodes:
                inodes[id(node)] = node.copy()
            return inodes[id(node)]

        other = SimDisk()
        other._names = {path: twin(node) for path, node in self._names.items()}
        other._durable_names = {path: twin(node) for path, node in self._durable_names.items()}
        other._pending_names = [
            NameChange(
                change.folder,
                change.removed,
                tuple((path, twin(node)) for path, node in change.added),
                change.moved,
            )
            for change in self._pending_names
        ]
        return other

    def after_crash(self, power: Power, rng: Random) -> SimDisk:
        """The disk as the next process finds it. This one stays as it is."""
        if power is Power.KILLED:
            return self.copy()
        names = dict(self._durable_names)
        for change in self._surviving_names(power, rng):
            change.apply(names)
        found = SimDisk()
        for path in sorted(names, key=lambda path: len(path.parts)):
            if path.parent not in found._names:
                continue  # its folder's own name was lost
            node = names[path]
            if node is not None:
                node = node.after(power, rng)
            found._names[path] = node
        found._durable_names = dict(found._names)
        return found

    def _surviving_names(self, power: Power, rng: Random) -> Sequence[NameChange]:
        """A journalled file system keeps some first changes, in order."""
        if power is Power.LOST:
            return ()
        if power is Power.KEPT:
            return self._pending_names
        return self._pending_names[: rng.randint(0, len(self._pending_names))]

    # -- for tests that damage things themselves -----------------------------------------------

    def content(self, path: Path) -> bytes:
        return bytes(self._inode(path).content)

    def damage(self, path: Path, corrupt: Callable[[bytearray], None]) -> None:
        """Change bytes behind everyone's back, on the platter and in sight."""
        inode = self._inode(path)
        corrupt(inode.content)
        inode.durable = bytearray(inode.content)
        inode.pending.clear()

    def files(self) -> list[Path]:
        return sorted(path for path, node in self._names.items() if node is not None)

    def _inode(self, path: Path) -> Inode:
        node = self._names[path]
        assert node is not None, "a file, not a folder"
        return node


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _no_room(path: Path) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
