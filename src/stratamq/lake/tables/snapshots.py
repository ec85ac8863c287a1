"""The snapshots of an Iceberg table: which files the current one has, and which old ones expire.

Old snapshots go, so that the files they name may go too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update.snapshot import ExpireSnapshots


class Listing:
    """Reads a table's manifests, each once: they never change.

    10,000 files take half a second the first time. After a commit only what it wrote is read.
    """

    def __init__(self) -> None:
        self._manifests: dict[str, tuple[str, ...]] = {}

    def files(self, table: Table) -> dict[str, str]:
        """The manifest of each data file, by the file's path."""
        snapshot = table.current_snapshot()
        found: dict[str, tuple[str, ...]] = {}
        for manifest in snapshot.manifests(table.io) if snapshot else ():
            if manifest.content is ManifestContent.DATA:
                known = self._manifests.get(manifest.manifest_path)
                found[manifest.manifest_path] = known or tuple(
                    entry.data_file.file_path
                    for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                )
        self._manifests = found
        return {path: manifest for manifest, paths in found.items() for path in paths}


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """Beyond either, a snapshot goes. The age should be no more than the grace period of objects
    that nothing names any more: an older snapshot may name some that are gone."""

    count_max: int = 100
    age_ms_max: int = 24 * 3_600_000


class Past(NamedTuple):
    """A snapshot as far as it matters here."""

    snapshot_id: int
    timestamp_ms: int


def due(
    past: Sequence[Past], named: Collection[int], now_ms: int, limits: SnapshotLimits
) -> set[int]:
    """Return the ids of snapshots that expire. `named` stay whatever their age: the newest, and
    those with a tag or a branch."""
    newest_first = sorted(past, key=lambda one: one.timestamp_ms, reverse=True)
    return {
        one.snapshot_id
        for place, one in enumerate(newest_first)
        if one.snapshot_id not in named
        and (place >= limits.count_max or now_ms - one.timestamp_ms > limits.age_ms_max)
    }


def due_in(metadata: TableMetadata, now_ms: int, limits: SnapshotLimits) -> list[Snapshot]:
    past = [Past(one.snapshot_id, one.timestamp_ms) for one in metadata.snapshots]
    named = {ref.snapshot_id for ref in metadata.refs.values()}
    going = due(past, named, now_ms, limits)
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
