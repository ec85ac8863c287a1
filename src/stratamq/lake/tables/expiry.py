"""Old snapshots of a table go, so that the files they name may go too."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyiceberg.io import FileIO
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update.snapshot import ExpireSnapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """Beyond either, a snapshot goes. The age should be no more than what objects are kept for
    that nothing names any more: an older snapshot may name some that are gone."""

    count_max: int = 100
    age_ms_max: int = 24 * 3_600_000


class Past(NamedTuple):
    """A snapshot as far as it matters here."""

    snapshot_id: int
    timestamp_ms: int


def due(
    past: Sequence[Past], kept: Collection[int], now_ms: int, limits: SnapshotLimits
) -> set[int]:
    """Those that go. `kept` stay whatever their age: the newest, and what somebody gave a name."""
    newest_first = sorted(past, key=lambda one: one.timestamp_ms, reverse=True)
    return {
        one.snapshot_id
        for place, one in enumerate(newest_first)
        if one.snapshot_id not in kept
        and (place >= limits.count_max or now_ms - one.timestamp_ms > limits.age_ms_max)
    }


def due_in(metadata: TableMetadata, now_ms: int, limits: SnapshotLimits) -> list[Snapshot]:
    past = [Past(one.snapshot_id, one.timestamp_ms) for one in metadata.snapshots]
    kept = {ref.snapshot_id for ref in metadata.refs.values()}
    going = due(past, kept, now_ms, limits)
    return [one for one in metadata.snapshots if one.snapshot_id in going]


def expire(transaction: Transaction, going: Sequence[Snapshot]) -> None:
    ExpireSnapshots(transaction).by_ids([one.snapshot_id for one in going]).commit()


def garbage(metadata: TableMetadata, going: Sequence[Snapshot], io: FileIO) -> set[str]:
    """The metadata files that only the snapshots named that are gone from `metadata`."""
    held = {
        manifest.manifest_path
        for snapshot in metadata.snapshots
        for manifest in snapshot.manifests(io)
    }
    manifests = {manifest.manifest_path for one in going for manifest in one.manifests(io)}
    return {*(one.manifest_list for one in going if one.manifest_list), *(manifests - held)}
