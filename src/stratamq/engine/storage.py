"""Where an engine's shards are stored: the only thing in which the three engines differ.

All calls block. They come one at a time for a given shard, under its lock; `commit` comes from
every worker of the I/O pool at once, each with its own shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from stratamq.engine.contract import ShardSpec
from stratamq.engine.group import Group
from stratamq.log.contract import ShardStore, Step
from stratamq.log.shard_copy import OnBytes, ShardCopy
from stratamq.model.types import Offset, ShardName

T = TypeVar("T")


class StoredShard(NamedTuple):
    """A shard found at opening. `high_watermark` is the last one saved, where there was one."""

    spec: ShardSpec
    store: ShardStore
    high_watermark: Offset | None = None


class OpenedStorage(NamedTuple):
    """Everything a storage found. `unavailable` are shards that cannot be opened, each with the
    reason: their files are left as they are, and their names are not free. `unopened` are those
    that `open_later` opens, on any thread, one call per shard; it returns None where there is no
    shard of that name after all."""

    kept: Sequence[StoredShard] = ()
    unavailable: Mapping[ShardName, str] = MappingProxyType({})
    unopened: Sequence[ShardName] = ()
    open_later: Callable[[ShardName], StoredShard | None] = lambda name: None


class ShardStorage(Protocol):
    """See the module. Errors are ours."""

    def open(self) -> OpenedStorage:
        """Recover, finish deletions that were under way, return every shard. One shard that cannot
        be opened does not keep the others from it. When it fails, nothing stays open."""

    def is_durable(self, spec: ShardSpec) -> bool:
        """Whether a shard that was created is still there after a restart."""

    def is_stored(self, spec: ShardSpec) -> bool:
        """False when the files of an open shard were removed from outside."""

    def create(self, specs: Sequence[ShardSpec]) -> Sequence[ShardStore]:
        """New, empty shards, whose names differ: all of them, durable with their specs on return,
        or none."""

    def configure(self, spec: ShardSpec, store: ShardStore) -> None:
        """Save a changed spec and make the store heed it."""

    def reopen(self, spec: ShardSpec, store: ShardStore) -> ShardStore:
        """Open a poisoned shard again, from what the disk really holds."""

    def retry(self, spec: ShardSpec, *, repair: bool) -> StoredShard:
        """Open a shard that was unavailable, if its files can be read now. With `repair`, which an
        operator asks for, a shard's own record of its name and configs that is missing or damaged
        is written from `spec`; the damaged one is kept. StorageError when that does not help."""

    def begin_index(self) -> bool:
        """Set a damaged index aside and begin an empty one, which `reopen` fills for each shard.
        False when the shards are in no index that could be rebuilt. May be repeated after a
        failure."""

    def discard(self, name: ShardName) -> None:
        """Delete, because a user asked for it, what is left of a shard that is unavailable."""

    def destroy(self, spec: ShardSpec, store: ShardStore) -> None:
        """Two-phase: marked first, so that a crash half-way is finished by the next `open`."""

    def commit(self, groups: Sequence[Group], *, waits: bool = True) -> Step | None:
        """Store the batches of every group, durably where its shard asks for it.

        What concerns one shard goes to its group's `error` and leaves the others alone; an
        exception fails them all. Without `waits`, on the event loop, a part that would have to wait
        is left out and returned, for a thread that may. Nothing is answered before it is done."""

    def copy_index(self, target: Path) -> None:
        """Copy an index that is derived from the logs to a backup. One that cannot be copied is
        left out, and rebuilt from the logs."""

    def copy_of(self, store: ShardStore, target: Path, end: Offset) -> ShardCopy | None:
        """How to copy a shard's own files to a backup; None where it has none."""

    def copy_rest(self, target: Path, ends: Mapping[ShardName, Offset], on_bytes: OnBytes) -> None:
        """Copy to a backup what is not in files of open shards. `ends` are the shards that the
        backup has, and where the logs of those that are open end in it."""

    def save_high_watermarks(self, marks: Mapping[ShardName, Offset]) -> None: ...

    def close(self) -> None:
        """Close every store, sync, release."""


def each(items: Iterable[T], act: Callable[[T], object]) -> None:
    """Act on all of them. The first failure is raised when all have had their turn."""
    failures: list[Exception] = []
    for item in items:
        try:
            act(item)
        except Exception as error:
            failures.append(error)
    if failures:
        raise failures[0]
