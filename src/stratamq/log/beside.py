"""What a shard in segment files keeps beside them: start offsets, leader epochs, deletion marks.

Each is a small file that is replaced whole, or appended to and synced. `stratamq.log.shard_log`
says when.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from stratamq.log import checkpoint, names
from stratamq.log import epochs as epoch_history
from stratamq.log.contract import EpochStart, PlacedBatch
from stratamq.log.deletions import Deletions
from stratamq.log.disk import replace_file
from stratamq.log.guard import Guard
from stratamq.model.types import NO_EPOCH, Offset


class Beside(Guard):
    """The part of FileShardLog that is not about batches."""

    __slots__ = ("_deletions", "_epochs", "_epochs_saved")

    _deletions: Deletions
    _epochs: epoch_history.History
    _epochs_saved: epoch_history.History

    def epochs(self) -> tuple[EpochStart, ...]:
        return self._epochs

    def note_epochs(self, history: Sequence[EpochStart]) -> None:
        self._check_writable()
        with self._disk_errors():
            self._save_epochs(epoch_history.with_all(self._epochs, history))

    def deleted(self) -> Set[Offset]:
        return self._deletions.offsets

    def delete(self, offsets: Iterable[Offset]) -> None:
        self._check_writable()
        with self._disk_errors():
            self._deletions.add(offsets)
            if self._deletions.offsets:
                self._files.note_beside(names.DELETIONS)

    def _note_epochs(self, batches: Sequence[PlacedBatch]) -> None:
        history = self._epochs
        newest = max([batch.header.leader_epoch for batch in batches])
        if newest > (history[-1].epoch if history else NO_EPOCH):
            for batch in batches:
                history = epoch_history.extended(
                    history, batch.header.leader_epoch, batch.header.base_offset
                )
        self._save_epochs(history)

    def _save_start(self, start: Offset) -> None:
        replace_file(self._disk, self._folder / names.START_OFFSET, checkpoint.encode(start))
        self._files.note_beside(names.START_OFFSET)
        self._start = start

    def _save_local_start(self, offset: Offset) -> None:
        replace_file(self._disk, self._folder / names.LOCAL_START, checkpoint.encode(offset))
        self._files.note_beside(names.LOCAL_START)
        self._offloaded = offset

    def _save_epochs(self, history: epoch_history.History) -> None:
        self._epochs = history
        if history != self._epochs_saved:
            replace_file(self._disk, self._folder / names.EPOCHS, epoch_history.encode(history))
            self._epochs_saved = history
