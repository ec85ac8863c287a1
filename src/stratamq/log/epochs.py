"""Leader-epoch history: which epoch wrote from which offset on, and its file in Kafka's format.

0                 version
2                 number of entries
0 0               epoch, start offset
3 1042

Most shards have had one leader, which wrote from offset 0 on (`FIRST_LEADER`). Shards whose
`shard.json` has format 3 need no file for that, as long as their batches show that there was one:
it is written when their history becomes another one or a segment is offloaded or compacted away,
and the file list names it from then on. So a first write to many shards creates no file, and a file
that is lost is still missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from stratamq.log import names
from stratamq.log.contract import EpochStart
from stratamq.log.disk import Disk, File, replace_file, temporary
from stratamq.log.file_list import FileList
from stratamq.model.errors import StorageError
from stratamq.model.types import EARLIEST, FIRST_EPOCH, NO_EPOCH, LeaderEpoch, Offset

VERSION = 0
FIRST = EpochStart(LeaderEpoch(-1), Offset(-1))
"""Before every epoch."""

History = tuple[EpochStart, ...]

FIRST_LEADER: History = (EpochStart(FIRST_EPOCH, EARLIEST),)
"""The history of a shard whose first leader wrote all of it."""

EPOCHS_MAX = 10_000
"""Leaders that a shard remembers. Above: the oldest is forgotten, and a question where it ended
is answered as for an epoch before the log. The next one is not given its records: that would let
a replica keep records that its leader never had."""


class EpochCheckpoint:
    """The history of one shard, its `newest` epoch, and its file, which is durable when `save`
    returns. `saved` is `history` itself, unless it was changed in memory alone.

    With `implied`, a shard without the file has FIRST_LEADER; `files` says whether it has it."""

    __slots__ = ("_disk", "_files", "_folder", "_implied", "history", "newest", "saved")

    def __init__(
        self, disk: Disk, folder: Path, history: History, files: FileList, *, implied: bool
    ) -> None:
        self._disk, self._folder, self._files, self._implied = disk, folder, files, implied
        self.saved = history
        self.set(history)

    @property
    def path(self) -> Path:
        return self._folder / names.EPOCHS

    def set(self, history: History) -> None:
        """Change it in memory alone: recovery cuts epochs that begin at the end of the log."""
        self.history = history
        self.newest = history[-1].epoch if history else NO_EPOCH

    def needs_no_file(self, history: History) -> bool:
        return self._implied and history == FIRST_LEADER and names.EPOCHS not in self._files.beside

    def save(self, history: History) -> None:
        self.set(history)
        if history != self.saved and not self.needs_no_file(history):
            replace_file(self._disk, self.path, encode(history))
            self.note_file()
        self.saved = history

    def keep(self) -> None:
        """Save what is implied, before segments go whose batches show it."""
        if self.needs_no_file(self.history):
            replace_file(self._disk, self.path, encode(self.history))
            self.note_file()

    def note_file(self) -> None:
        """The file was written: without it, the shard's history is not FIRST_LEADER any more."""
        if self._implied:
            self._files.note_beside(names.EPOCHS)


Unsaved = tuple[EpochCheckpoint, History]
"""A checkpoint, and the history that is to be saved in it."""


def save_together(disk: Disk, unsaved: Sequence[Unsaved]) -> None:
    """As `save` for each of them, with their files and then their folders synced together. One that
    fails is left unsaved: the next `save` tries again, and raises."""
    written: list[Unsaved] = []
    files: list[File] = []
    for checkpoint, history in unsaved:
        with suppress(OSError):
            file = disk.open(temporary(checkpoint.path), create=True)
            file.truncate(0)
            file.write([encode(history)], 0)
            files.append(file)
            written.append((checkpoint, history))
    renamed: list[Unsaved] = []
    for one, error in zip(written, disk.sync_all(files), strict=True):
        if error is None:
            with suppress(OSError):
                disk.rename(temporary(one[0].path), one[0].path)
                renamed.append(one)
    with suppress(OSError):
        disk.sync_folders([checkpoint.path.parent for checkpoint, _ in renamed])
        for checkpoint, history in renamed:
            checkpoint.note_file()
            checkpoint.set(history)
            checkpoint.saved = history


def extended(history: History, epoch: LeaderEpoch, start: Offset) -> History:
    """With a new epoch, if it is one. Batches without an epoch (-1) change nothing; an epoch that
    wrote nothing is forgotten."""
    if epoch < 0 or (history and epoch <= history[-1].epoch):
        return history
    return (*cut_end(history, start), EpochStart(epoch, start))[-EPOCHS_MAX:]


def with_all(history: History, others: Iterable[EpochStart]) -> History:
    """With each of the others that is newer."""
    for epoch, start in others:
        history = extended(history, epoch, start)
    return history


def cut_end(history: History, end: Offset) -> History:
    """Without epochs that begin at or after `end`."""
    return tuple(entry for entry in history if entry.start_offset < end)


def cut_start(history: History, start: Offset) -> History:
    """Without epochs that end at or before `start`; the one that spans it begins there."""
    kept = [entry for entry in history if entry.start_offset > start]
    older = [entry for entry in history if entry.start_offset <= start]
    if older:
        kept.insert(0, EpochStart(older[-1].epoch, start))
    return tuple(kept)


def end_of_epoch(
    history: History, epoch: LeaderEpoch, end: Offset
) -> tuple[LeaderEpoch, Offset] | None:
    """The largest known epoch <= `epoch` and the offset at which it ends; None when all are
    larger."""
    known = [number for number, entry in enumerate(history) if entry.epoch <= epoch]
    if not known:
        return None
    last = known[-1]
    ends = history[last + 1].start_offset if last + 1 < len(history) else end
    return history[last].epoch, ends


def encode(history: History) -> bytes:
    lines = [str(VERSION), str(len(history))]
    lines += [f"{entry.epoch} {entry.start_offset}" for entry in history]
    return ("\n".join(lines) + "\n").encode()


def decode(data: bytes) -> History:
    """StorageError for anything that `encode` would not have written."""
    try:
        _, _, *entries = data.decode().split("\n")[:-1]
        history = tuple(
            EpochStart(LeaderEpoch(int(epoch)), Offset(int(start)))
            for epoch, start in (entry.split(" ") for entry in entries)
        )
    except ValueError as error:
        raise StorageError(f"the leader-epoch history does not parse: {error}") from None
    if encode(history) != data:
        raise StorageError("the leader-epoch history has another version or length than it says")
    if any(not _is_before(*pair) for pair in pairwise((FIRST, *history))):
        raise StorageError("the leader-epoch history goes backwards")
    return history


def _is_before(first: EpochStart, second: EpochStart) -> bool:
    return first.epoch < second.epoch and first.start_offset < second.start_offset
