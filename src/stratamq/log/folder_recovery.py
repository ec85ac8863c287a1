"""The files of a shard's folder after a stop: which are there, which are missing, what they say."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Set
from pathlib import Path

from stratamq.log import epochs, names, start_offsets
from stratamq.log.disk import Disk, read_all
from stratamq.log.file_list import Comparison, FileList, added
from stratamq.log.index import ShardIndex
from stratamq.log.sealed_segment import SealedSegment
from stratamq.log.sidecar import SPAN_MAX
from stratamq.model.errors import InvalidInput, StorageError
from stratamq.model.types import EARLIEST, NO_EPOCH, LeaderEpoch, Offset
from stratamq.wire.kafka.records import HEADER_BYTES, read_header

logger = logging.getLogger(__name__)

TORN_COPIES_MAX = 3
"""Copies of torn tails kept per shard. When there are more, the oldest are removed."""


class FolderRecovery:
    """Compares the folder with the file list and reads the small files. Damage goes to `report`."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        present: Set[str],
        index: ShardIndex,
        files: FileList,
        report: Callable[[str], None],
        *,
        gaps: bool,
    ) -> None:
        self.disk, self.folder, self.index, self.files = disk, folder, index, files
        self.present, self._report, self.gaps = present, report, gaps

    def sweep(self) -> dict[Offset, int]:
        """Remove what never came into force; the sizes of the log files that are there."""
        sizes: dict[Offset, int] = {}
        torn: list[str] = []
        for name in self.present:
            base = names.base_of_log(name)
            if base is not None:
                sizes[base] = self.disk.size(self.folder / name)
            elif name.endswith((names.CLEANED, names.TEMPORARY)):
                self.disk.unlink(self.folder / name)
            elif names.TORN in name:
                torn.append(name)
        for name in sorted(torn, key=names.torn_at)[:-TORN_COPIES_MAX]:
            self.disk.unlink(self.folder / name)
        return sizes

    def match_list(self, sizes: Mapping[Offset, int], begin: Offset) -> Comparison:
        """Make folder and list agree: finish removals, list what is not listed, set strays aside,
        and report what is missing."""
        files = self.files
        if names.DELETIONS in files.beside and names.DELETIONS not in self.present:
            self._report(
                f"{self.folder / names.DELETIONS}: missing; deleted records that were not compacted"
                " yet can be read again"
            )
        found = files.compare(sizes, begin)
        if found.doubtful:
            aside = self._judge(found.doubtful, sizes, begin)
            sizes = {base: size for base, size in sizes.items() if base not in aside}
            found = files.compare(sizes, begin)
        for base in found.left:
            self.unlink_segment(base)
        if found.left:
            self.disk.sync_folder(self.folder)
        if not files.complete:
            logger.warning("%s: the list of its files is written again", self.folder)
            files.segments |= dict.fromkeys(found.unlisted, ())
            files.write_again(keep_damaged=bool(files.damage))
        elif found.unlisted or found.passed:
            files.note(
                [f"removed {base}" for base in found.passed]
                + [f"segment {base}" for base in found.unlisted]
            )
        if files.is_long:
            files.write_again()
        return found

    def _judge(
        self, doubtful: list[Offset], sizes: Mapping[Offset, int], begin: Offset
    ) -> set[Offset]:
        """Files that the list does not name. One that goes on where the log ends is taken into the
        list; one that holds nothing above the end is set aside, and returned. Anything else may
        hold records whose offsets would be given out again: the shard is not opened."""
        aside: set[Offset] = set()
        for base in doubtful:
            named = sorted(each for each in self.files.segments if each in sizes)
            below = [each for each in named if each < base]
            reached = max([begin, *below[-1:], *map(self.end_of_file, below[-1:])])
            end = self.end_of_file(base)
            path = self.folder / names.segment_file(base, names.LOG)
            if base == reached or (self.gaps and reached < base < end):
                self.files.note([f"segment {base}"] if sizes[base] else added(base))
                if base > reached:
                    self._report(
                        f"{path}: the list of files does not name it, and offsets {reached} to"
                        f" {base - 1} are not there: they were compacted away, or are lost"
                    )
            elif end <= max([reached, *named[-1:], *map(self.end_of_file, named[-1:])]):
                self._report(f"{path}: this shard has no such segment; set aside as {names.STRAY}")
                self.disk.rename(path, path.with_name(path.name + names.STRAY))
                self.disk.sync_folder(self.folder)
                aside.add(base)
            else:
                raise StorageError(
                    f"{path}: the list of files does not name it, and it does not go on where the"
                    f" log ends ({reached}): bring back what is missing, or move it away"
                )
        return aside

    def end_of_file(self, base: Offset) -> Offset:
        """Where the last intact batch of a log file ends; EARLIEST where it has none."""
        state = self.index.state()
        if state is not None and state.segment == base and state.indexed_end > base:
            return state.indexed_end
        segment = SealedSegment(self.disk, self.folder, self.index, base, Offset(base + SPAN_MAX))
        return max((found.header.next_offset for found in segment.batches()), default=EARLIEST)

    def finish_offload(self, bases: list[Offset], offloaded: Offset) -> list[Offset]:
        """Finish what a crash cut off, from the oldest on."""
        gone = [base for base in bases[:-1] if base < offloaded]
        if not gone:
            return bases
        rows = self.index.kv.batch()
        self.files.note(f"removed {base}" for base in gone)
        for base in gone:
            self.unlink_segment(base)
            self.index.drop_segment(rows, base)
        self.disk.sync_folder(self.folder)
        self.index.kv.write(rows)
        return bases[len(gone) :]

    def unlink_segment(self, base: Offset) -> None:
        for suffix in (names.OFFSET_INDEX, names.TIME_INDEX, names.LOG):
            self.disk.unlink(self.folder / names.segment_file(base, suffix))

    def start_offset(self, bases: list[Offset], history: epochs.History | None) -> Offset:
        """Where its file says; without one, where the segments begin."""
        try:
            known = self._checkpoint(names.START_OFFSET)
        except StorageError as error:
            path = self.folder / names.START_OFFSET
            if names.LOCAL_START in self.present:
                self._report(f"{path}: {error}; the log begins with its first leader epoch")
                return history[0].start_offset if history else EARLIEST
            self._report(f"{path}: {error}; the log begins with its first segment")
            known = None
        if known is not None:
            return known
        return bases[0] if bases else EARLIEST

    def local_start(self, bases: list[Offset], start: Offset) -> Offset:
        """Below it nothing is kept here."""
        try:
            return self._checkpoint(names.LOCAL_START) or EARLIEST
        except StorageError as error:
            path = self.folder / names.LOCAL_START
            self._report(f"{path}: {error}; what is kept here begins with the first segment")
            return max(bases[0], start) if bases else start

    def _checkpoint(self, name: str) -> Offset | None:
        if name in self.present:
            return start_offsets.decode(read_all(self.disk, self.folder / name))
        if name in self.files.beside:
            raise StorageError("missing")
        return None

    def load_epochs(self, bases: list[Offset], *, implied: bool) -> epochs.History | None:
        """None when it must be rebuilt from the log. `implied`: see `stratamq.log.epochs`."""
        path = self.folder / names.EPOCHS
        if names.EPOCHS in self.present:
            try:
                return epochs.decode(read_all(self.disk, path))
            except StorageError as error:
                self._report(f"{path}: {error}; rebuilt from the log")
                return None
        has_epochs = any(self._first_epoch(base) != NO_EPOCH for base in bases)
        if implied and self.files.complete and names.EPOCHS not in self.files.beside:
            return epochs.FIRST_LEADER if has_epochs else ()
        if not has_epochs:
            return ()
        self._report(f"{path}: missing; rebuilt from the log")
        return None

    def _first_epoch(self, base: Offset) -> LeaderEpoch:
        """The leader epoch of a segment's first batch. No checksum covers it, so it may be
        anything; NO_EPOCH where no batch can be read."""
        file = self.disk.open(self.folder / names.segment_file(base, names.LOG))
        try:
            return LeaderEpoch(read_header(file.read(HEADER_BYTES, 0)).leader_epoch)
        except InvalidInput:
            return NO_EPOCH
