"""When a shard in segment files refuses writes, and what its disk's errors mean."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stratamq.log.disk import Disk
from stratamq.log.shard_reads import ShardReads
from stratamq.model.errors import DiskFull, ShardPoisoned, StorageError

NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


class Guard(ShardReads):
    """Stands before every write of FileShardLog. Reading asks nobody."""

    __slots__ = ("_disk", "_folder", "_names_settled", "_poison")

    _disk: Disk
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
        """A full disk is the caller's to wait out; any other failure leaves us not knowing what the
        disk holds."""
        try:
            yield
        except OSError as error:
            if error.errno in NO_ROOM:
                raise DiskFull(f"{self.name}: {error}") from error
            raise self.poison(str(error)) from error

    @contextmanager
    def _or_poison(self) -> Iterator[None]:
        """For what cannot be taken back: when it fails, only the disk knows how far it got."""
        try:
            yield
        except ShardPoisoned:
            raise
        except (OSError, StorageError) as error:
            raise self.poison(str(error)) from error
