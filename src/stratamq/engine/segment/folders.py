"""The folders of EngineSegment's shards, and the `shard.json` that makes a folder a shard.

Creation writes `shard.json` last; deletion renames the folder first. Shards are created many at a
time, step by step for all of them, and their files are synced together: file systems write their
journal once for all waiting callers.

What `find` does with the names below the root:

| found                                                       | done                            |
|-------------------------------------------------------------|---------------------------------|
| a folder with a `shard.json` whose name and checksum fit    | the shard is opened             |
| a folder of a shard's name without one, with nothing but an | removed: its creation was cut   |
| empty first segment in it                                   | off, and no offset was given    |
| a folder of a shard's name whose `shard.json` is missing,   | left as it is; the shard is     |
| damaged or another shard's, or that cannot be read          | unavailable until it is back    |
| a folder of a shard's name with `-deleted` after it         | its deletion goes on            |
| any other name                                              | left as it is, reported         |

A shard's name is the id of its topic in hexadecimal and the number of its partition; a folder of
any other name is opened for its `shard.json` alone, and never removed.
"""

from __future__ import annotations

import errno
import json
import logging
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from stratamq.engine.contract import ShardSpec
from stratamq.engine.layout import HIGH_WATERMARKS
from stratamq.log import names
from stratamq.log.disk import (
    OUT_OF_DESCRIPTORS,
    Disk,
    File,
    read_all,
    replace_file,
    storage_error,
)
from stratamq.model.errors import InvalidConfig, ShardUnavailable, StorageError
from stratamq.model.topic import TopicConfig
from stratamq.model.types import EARLIEST, ShardName
from stratamq.wire.crc import crc32c

logger = logging.getLogger(__name__)

FORMAT = 3
REPAIRED_FORMAT = 2
"""Of a `shard.json` that is written again from the metadata: it cannot be known from when the
shard is, and a missing history of leader epochs is read from the log then."""

CANNOT_TELL = OUT_OF_DESCRIPTORS | {errno.ENOMEM, errno.EIO}
"""Why a file cannot be read that may be as it should."""

DAMAGED_MAX = 100
"""Damaged copies of one `shard.json`. When there are so many, the last is replaced."""

FOLDERS_MAX = 512
"""Paths that are remembered. When there are more, the one used longest ago is forgotten."""

CONFIGS_MAX = 256
"""Configs whose text is remembered. When there are more, the one used longest ago is forgotten."""

SHARD_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")
"""What an engine can create."""

TOPICS_SHARD = re.compile(r"[0-9a-f]{32}_[0-9]{1,10}")
"""What shards of topics are called. Only these are ever removed unasked."""


class FoundFolders(NamedTuple):
    """What lies below the root. `unavailable` has the reason for each shard that has a folder and
    no `shard.json` that can be trusted; `strays` are names that no shard has; `unread` are names
    of shards whose folders were not looked into."""

    specs: list[ShardSpec]
    unavailable: dict[ShardName, str]
    strays: list[str]
    unread: list[ShardName]


class ShardFolders:
    """Everything under one root. Errors are OSError, as the disk gives them."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk, self.root = disk, root
        self._formats: dict[ShardName, int] = {}
        self.of: Callable[[ShardName], Path] = lru_cache(FOLDERS_MAX)(root.__truediv__)
        """The folder of a shard. Several steps of a creation ask for the same ones, and putting a
        path together is slow."""

    # -- making --------------------------------------------------------------------------------

    def check_free(self, specs: Sequence[ShardSpec]) -> list[Path]:
        """Folders that creations which failed have left. ShardUnavailable when a folder of such a
        name is there which may hold records."""
        left = [folder for spec in specs if self._disk.exists(folder := self.of(spec.name))]
        for folder in left:
            if not self.is_unfinished(folder):
                raise ShardUnavailable(f"{folder} is there already and is left as it is")
        return left

    def make(self, specs: Sequence[ShardSpec], left: Sequence[Path]) -> None:
        """Empty folders, for segments to be put into; those that were `left` are removed before."""
        for folder in left:
            self._disk.remove_folder(folder)
        for spec in specs:
            self._disk.make_folder(self.of(spec.name))
            self._formats[spec.name] = FORMAT

    def confirm(self, specs: Sequence[ShardSpec]) -> None:
        """The folders, and the names in them, are shards from now on: durable on return."""
        folders = [self.of(spec.name) for spec in specs]
        written = [folder / (names.SPEC + names.TEMPORARY) for folder in folders]
        files: list[File] = []
        for spec, path in zip(specs, written, strict=True):
            files.append(self._disk.open(path, create=True))
            files[-1].write([_encode(spec, FORMAT)], 0)
        for error in self._disk.sync_all(files):
            if error is not None:
                raise error
        for folder, path in zip(folders, written, strict=True):
            self._disk.rename(path, folder / names.SPEC)
        self._disk.sync_folders(folders)
        self._disk.sync_folder(self.root)

    def unmake(self, specs: Sequence[ShardSpec]) -> None:
        """A creation failed. What cannot be removed now goes when its name is wanted again."""
        for spec in specs:
            try:
                self._disk.unlink(self.of(spec.name) / names.SPEC)  # first: it is no shard
                self._disk.remove_folder(self.of(spec.name))
            except OSError:
                continue

    def save(self, spec: ShardSpec) -> None:
        """A changed spec. The format says how the shard was created, and stays."""
        data = _encode(spec, self._formats.get(spec.name, REPAIRED_FORMAT))
        replace_file(self._disk, self.of(spec.name) / names.SPEC, data)

    def forget(self, name: ShardName) -> None:
        """Its folder is deleted."""
        self._formats.pop(name, None)

    def first_leader_implied(self, name: ShardName) -> bool:
        """Whether a shard that was created or read here has a history of leader epochs without a
        file of it: see `stratamq.log.epochs`."""
        return self._formats.get(name, REPAIRED_FORMAT) >= 3

    def spec_of(self, expected: ShardSpec, *, repair: bool) -> ShardSpec:
        """What `shard.json` says. With `repair`, one that is missing or damaged is written again
        as `expected`, and the damaged one is kept beside it."""
        path = self.of(expected.name) / names.SPEC
        if not self._disk.exists(path.parent):
            raise ShardUnavailable(f"{path.parent} is missing")
        try:
            return self.read_spec(expected.name)
        except OSError as error:
            if not repair or error.errno in CANNOT_TELL:
                raise
        except StorageError:
            if not repair:
                raise
        if self._disk.exists(path):
            self._disk.rename(path, self._free_name(path))
        self._formats[expected.name] = REPAIRED_FORMAT
        self.save(expected)
        logger.warning("%s was missing or damaged, and is written from the metadata", path)
        return expected

    def _free_name(self, path: Path) -> Path:
        """Where a damaged file is kept, without replacing one that was damaged before."""
        kept = path.with_name(path.name + names.DAMAGED)
        for number in range(2, DAMAGED_MAX + 1):
            if not self._disk.exists(kept):
                break
            kept = path.with_name(f"{path.name}{names.DAMAGED}-{number}")
        return kept

    # -- finding -------------------------------------------------------------------------------

    def deleted(self) -> list[Path]:
        """Folders on their way out."""
        return [
            self.root / name
            for name in sorted(self._disk.names(self.root))
            if _is_deleted(name) and self._disk.is_folder(self.root / name)
        ]

    def find(self, can_wait: Callable[[ShardName], bool] = lambda name: False) -> FoundFolders:
        """See the table above. Changes nothing but creations that were cut off. Folders of topics'
        shards that `can_wait` are left `unread`, for `look_into`."""
        unread: list[ShardName] = []
        read: list[str] = []
        for name in sorted(self._disk.names(self.root)):
            if _is_deleted(name) or name.removesuffix(names.TEMPORARY) == HIGH_WATERMARKS:
                continue
            if TOPICS_SHARD.fullmatch(name) and can_wait(ShardName(name)):
                unread.append(ShardName(name))
            else:
                read.append(name)
        return self.look_into(*read)._replace(unread=unread)

    def look_into(self, *found_names: str) -> FoundFolders:
        """The same for folders of these names. One that the disk does not let us look into is its
        shard's trouble."""
        found = FoundFolders([], {}, [], [])
        for name in found_names:
            try:
                self._look_at(name, found)
            except (OSError, StorageError) as error:
                found.unavailable[ShardName(name)] = f"{self.root / name / names.SPEC}: {error}"
        return found

    def _look_at(self, name: str, found: FoundFolders) -> None:
        folder = self.root / name
        if not SHARD_NAME.fullmatch(name) or not self._disk.is_folder(folder):
            found.strays.append(name)
        elif self._disk.exists(folder / names.SPEC):
            found.specs.append(self.read_spec(ShardName(name)))
        elif not TOPICS_SHARD.fullmatch(name):
            found.strays.append(name)
        elif self.is_unfinished(folder):
            self._disk.remove_folder(folder)
        else:
            found.unavailable[ShardName(name)] = f"{folder / names.SPEC} is missing"

    def read_spec(self, name: ShardName) -> ShardSpec:
        spec, self._formats[name] = _decode(read_all(self._disk, self.of(name) / names.SPEC))
        if spec.name != name:
            raise StorageError(f"it belongs to shard {spec.name}")
        return spec

    def is_unfinished(self, folder: Path) -> bool:
        """Whether it is what a creation leaves that was cut off: no segment but the first, and no
        byte in that."""
        first = names.segment_file(EARLIEST, names.LOG)
        for name in self._disk.names(folder):
            if name == first:
                if self._disk.open(folder / name).size():
                    return False
            elif name != names.SPEC + names.TEMPORARY:
                return False
        return True


def _is_deleted(name: str) -> bool:
    return name.endswith(names.GONE) and bool(TOPICS_SHARD.fullmatch(name.removesuffix(names.GONE)))


def _encode(spec: ShardSpec, form: int) -> bytes:
    """As JSON with a checksum over the other fields, in the form in which they are written here."""
    given = dict(spec.config.given)
    fields = {"format": form, "name": spec.name, "config": given, "replicated": spec.replicated}
    texts = {name: json.dumps(value) for name, value in fields.items()}
    texts |= {"config": _indented(texts["config"]), "checksum": f'"{_checksum(fields)}"'}
    lines = ",\n".join([f'  "{name}": {text}' for name, text in texts.items()])
    return f"{{\n{lines}\n}}\n".encode()


@lru_cache(CONFIGS_MAX)
def _indented(text: str) -> str:
    """The same JSON over several lines: Python's own encoder is slow at that, and shards that are
    created together have few configs between them."""
    return json.dumps(json.loads(text), indent=2).replace("\n", "\n  ")


def _decode(data: bytes) -> tuple[ShardSpec, int]:
    """The spec, and its format. StorageError when it is not what `_encode` wrote. Format 1 had no
    checksum; shards of format 2 have a history of leader epochs from their first batch on."""
    try:
        fields = json.loads(data)
        checksum = fields.pop("checksum", None)
        form = int(fields.get("format", 1))
        if form > FORMAT:
            raise StorageError(f"a newer release wrote it: it has format {form}, not {FORMAT}")
        if form > 1 and checksum != _checksum(fields):
            raise StorageError("it does not match its checksum")
        spec = ShardSpec(
            name=ShardName(fields["name"]),
            config=TopicConfig.of(fields["config"]),
            replicated=fields["replicated"],
        )
        return spec, form
    except (ValueError, KeyError, TypeError, AttributeError, InvalidConfig) as error:
        raise StorageError(f"it cannot be read: {error}") from error


def _checksum(fields: dict[str, object]) -> str:
    return f"{crc32c(json.dumps(fields, sort_keys=True).encode()):08x}"


def as_storage_error(error: Exception) -> Exception:
    """An error of the disk as one of ours."""
    if not isinstance(error, OSError):
        return error
    return storage_error("shards were not created or deleted", error)
