"""Segment files that stay open because they have writes which no sync has followed.

The descriptor that was written to is kept until a sync, since that is what surely gets the error
of a write that failed. Linux keeps such an error with the inode, and a descriptor that is opened
later gets it if no other has. But an inode that no process has open may leave the kernel's memory,
and its error leaves with it: a later sync would succeed although the bytes are lost. So no file is
closed unsynced, not even where `flush=os` promises no sync. That costs little: the kernel would
have written the same bytes within half a minute, and many files are synced together.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from stratamq.engine.group import Group
from stratamq.engine.limits import EngineLimits
from stratamq.engine.shard import Shard
from stratamq.log.disk import Disk, File
from stratamq.log.shard_log import FileShardLog
from stratamq.model.errors import StrataError
from stratamq.model.types import ShardName

UNSYNCED_PART = 2
"""One half of `open_files_max` may be files with unsynced writes: readers have the other."""

CLOSED_PART = 8
"""At the limit, an eighth is synced together: that takes little longer than to sync one file."""

logger = logging.getLogger(__name__)


class UnsyncedFiles:
    """The shards of each lane that may hold a file with unsynced writes, the longest first. One
    that was synced meanwhile leaves when its turn comes.

    A lane's worker is the one writer of its shards, and each lane has its share of the limit: so a
    worker waits for the syncs of its own shards, and never for another worker. Where the event loop
    writes, it only adds files that are open anyway; a worker closes others after that.
    """

    def __init__(self, limits: EngineLimits, stores: Mapping[ShardName, FileShardLog]) -> None:
        self._stores = stores
        self.lanes: list[dict[ShardName, Shard]] = [{} for _ in range(limits.workers)]
        self.lane_max = max(limits.open_files_max // UNSYNCED_PART // limits.workers, 1)

    def __len__(self) -> int:
        return sum(map(len, self.lanes))

    def forget(self, name: ShardName) -> None:
        for lane in self.lanes:
            lane.pop(name, None)

    def close_oldest(self, disk: Disk, lane: int, kept_max: int, groups: Sequence[Group]) -> None:
        """Sync and close the files of the shards that hold one longest, until `kept_max` are left,
        or some more. The caller is the lane's worker and commits these groups, so no other thread
        writes to their shards. A sync that fails poisons its shard, and is the error of its group
        if it has one here."""
        closed = max(self.lane_max // CLOSED_PART, len(self.lanes[lane]) - kept_max)
        committing = {group.shard: group for group in groups}
        free = (
            shard
            for shard in list(self.lanes[lane].values())
            if shard in committing or shard.lock.acquire(blocking=False)
        )
        taken = list(islice(free, closed))
        try:
            for shard, failure in self._synced(disk, taken):
                logger.error("%s was not synced: %s", shard.name, failure)
                if shard in committing:
                    committing[shard].error = failure
        finally:
            for shard in taken:
                if shard not in committing:
                    shard.lock.release()

    def _synced(self, disk: Disk, shards: Sequence[Shard]) -> Iterator[tuple[Shard, StrataError]]:
        """Sync the files of these shards together, and let go of them; those that failed."""
        waiting: list[tuple[Shard, FileShardLog]] = []
        files: list[File] = []
        for shard in shards:
            self.lanes[shard.lane].pop(shard.name, None)
            log = self._stores.get(shard.name)
            if log is None:  # it was deleted
                continue
            try:
                file = log.unsynced()
            except StrataError as failure:
                yield shard, failure
                continue
            if file is not None:
                waiting.append((shard, log))
                files.append(file)
        for (shard, log), error in zip(waiting, disk.sync_all(files), strict=True):
            try:
                log.end_sync(error)
            except StrataError as failure:
                yield shard, failure
