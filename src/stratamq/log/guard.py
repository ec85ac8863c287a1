"""When a shard in segment files refuses writes, and which errors its disk's errors become."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stratamq.log.disk import OUT_OF_DESCRIPTORS, Disk, storage_error
from stratamq.log.file_list import FileList
from stratamq.model.errors import OutOfResources, ShardPoisoned, StorageError
from stratamq.model.types import ShardName


class WriteGuard:
    """Asked before every write of a shard; reads do not ask.

    `ready` is true while nothing stands against a write. It is false until the names in the shard's
    folder are synced, and for ever after a failure that leaves unknown what the disk holds.
    """

    __slots__ = ("_name", "poisoned", "ready")

    def __init__(self, name: ShardName) -> None:
        self._name = name
        self.ready = False
        self.poisoned: str | None = None

    def check(self, disk: Disk, folder: Path, files: FileList) -> None:
        """Before a write while not `ready`. A process that was killed may have created or removed
        names without syncing them, and what is built on these names must not outlive them."""
        if self.poisoned is not None:
            raise ShardPoisoned(f"{self._name} takes no writes: {self.poisoned}")
        with self.disk_errors():
            files.sync()
            disk.sync_folder(folder)
            disk.sync_folder(folder.parent)
        self.ready = True

    def poison(self, reason: str) -> ShardPoisoned:
        """Refuse every write from now on; the error to raise."""
        self.poisoned, self.ready = reason, False
        return ShardPoisoned(f"{self._name} takes no writes until it is recovered: {reason}")

    def failure(self, error: OSError) -> StorageError:
        """The error to raise for one of the disk. Callers wait out a full disk or a lack of
        descriptors and try again; after any other failure it is not known what the disk holds.
        Names that were changed before are synced before the next write."""
        failure = storage_error(self._name, error)
        if not isinstance(failure, OutOfResources):
            return self.poison(str(error))
        self.ready = False
        return failure

    def sync_failure(self, error: OSError) -> StorageError:
        """The error to raise for a sync that failed. It poisons the shard: the kernel may have
        dropped the pages that it could not write. Only for want of a descriptor it does not, since
        then the file was not even opened."""
        if error.errno in OUT_OF_DESCRIPTORS:
            return storage_error(self._name, error)
        return self.poison(f"fsync failed: {error}")

    @contextmanager
    def disk_errors(self) -> Iterator[None]:
        """For steps that can be repeated; see `failure`."""
        try:
            yield
        except OSError as error:
            raise self.failure(error) from error

    @contextmanager
    def or_poison(self) -> Iterator[None]:
        """For steps that cannot be taken back: when one fails, only the disk knows how far it
        got."""
        try:
            yield
        except ShardPoisoned:
            raise
        except (OSError, StorageError) as error:
            raise self.poison(str(error)) from error
