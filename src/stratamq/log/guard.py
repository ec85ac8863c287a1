"""When a shard in segment files refuses writes, and which errors its disk's errors become."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stratamq.log.disk import NO_ROOM, Disk, storage_error
from stratamq.log.file_list import FileList
from stratamq.log.shard_reads import ShardReads
from stratamq.model.errors import OutOfResources, ShardPoisoned, StorageError

__all__ = ["NO_ROOM", "Guard"]


class Guard(ShardReads):
    """Stands before every write of FileShardLog. Reading asks nobody."""

    __slots__ = ("_disk", "_files", "_folder", "_names_settled", "_poison")

    _disk: Disk
    _files: FileList
    _folder: Path
    _poison: str | None
    _names_settled: bool

    def _check_writable(self) -> None:
        if self._poison is not None:
            raise ShardPoisoned(f"{self.name} takes no writes: {self._poison}")
        if not self._names_settled:
            self._settle_names()

    def _settle_names(self) -> None:
        """Before the first write: a process that was killed may have made or removed names and not
        synced them, and what is built on them must not outlive them."""
        with self._disk_errors():
            self._files.sync()
            self._disk.sync_folder(self._folder)
            self._disk.sync_folder(self._folder.parent)
        self._names_settled = True

    def names_are_durable(self) -> None:
        """Somebody else has seen to it."""
        self._names_settled = True

    def poison(self, reason: str) -> ShardPoisoned:
        """Refuse every write from now on; the error to raise."""
        self._poison = reason
        return ShardPoisoned(f"{self.name} takes no writes until it is recovered: {reason}")

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """Callers wait out a full disk or a lack of descriptors, and try again; after any other
        failure it is not known what the disk holds. Names that were changed before such an error
        are synced before the next write."""
        try:
            yield
        except OSError as error:
            failure = storage_error(self.name, error)
            if not isinstance(failure, OutOfResources):
                raise self.poison(str(error)) from error
            self._names_settled = False
            raise failure from error

    @contextmanager
    def _or_poison(self) -> Iterator[None]:
        """For what cannot be taken back: when it fails, only the disk knows how far it got."""
        try:
            yield
        except ShardPoisoned:
            raise
        except (OSError, StorageError) as error:
            raise self.poison(str(error)) from error
