"""Where an engine's shards are kept: the only thing in which the three engines differ.

All calls block. They come one at a time for a given shard, under its lock; `commit` comes from
every worker of the I/O pool at once, each with its own shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from stratamq.engine.contract import ShardSpec
from stratamq.engine.group import Group
from stratamq.log.contract import ShardStore
from stratamq.model.types import Offset, ShardName


class Kept(NamedTuple):
    """A shard found at opening. `high_watermark` is the last one saved, where there was one."""

    spec: ShardSpec
    store: ShardStore
    high_watermark: Offset | None = None


class Keeper(Protocol):
    def open(self) -> Sequence[Kept]:
        """Recover, finish deletions that were under way, give back every shard."""

    def create(self, specs: Sequence[ShardSpec]) -> Sequence[ShardStore]:
        """New, empty shards, whose names differ: all of them, durable with their specs on return,
        or none."""

    def configure(self, spec: ShardSpec, store: ShardStore) -> None:
        """Save a changed spec and make the store heed it."""

    def reopen(self, spec: ShardSpec, store: ShardStore) -> ShardStore:
        """Open a poisoned shard anew, from what the disk really holds."""

    def destroy(self, spec: ShardSpec, store: ShardStore) -> None:
        """Two-phase: marked first, so that a crash half-way is finished by the next `open`."""

    def commit(self, groups: Sequence[Group]) -> None:
        """Store the batches of every group, durably where its shard asks for it.

        What concerns one shard goes to its group's `error` and leaves the others alone; an
        exception fails them all."""

    def save_high_watermarks(self, marks: Mapping[ShardName, Offset]) -> None: ...

    def close(self) -> None:
        """Close every store, sync, release."""
