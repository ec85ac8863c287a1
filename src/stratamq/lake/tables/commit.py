"""One snapshot that takes files out of an Iceberg table and adds others, at a bounded price.

pyiceberg's own overwrite reads every manifest of the partitions it touches, twice. We know which
manifest a file is in, so that only those are read that change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _SnapshotProducer

MANIFEST_BYTES = 256 << 10
MANIFEST_FILES = 700
"""Manifests stay so small that rewriting one, to remove a file, takes about 0.2 s."""

MANIFESTS_MERGED = 32
"""When there are so many small ones they become one."""


def commit(
    transaction: Transaction,
    add: Sequence[DataFile],
    remove: Mapping[str, str],
    properties: Mapping[str, str],
) -> None:
    """`remove` are paths with the manifests they are in."""
    operation = Operation.OVERWRITE
    if not remove:
        operation = Operation.APPEND
    elif not add:
        operation = Operation.DELETE
    change = _Change(
        operation, transaction, transaction._table.io, snapshot_properties=dict(properties)
    )
    change.remove = remove
    for file in add:
        change.append_data_file(file)
    change.commit()


class _Change(_SnapshotProducer["_Change"]):
    remove: Mapping[str, str]

    def _validate_concurrency(self) -> None:
        """The catalog compares the snapshot this builds on with the table's: no other may be in
        between."""

    def _parent_manifests(self) -> list[ManifestFile]:
        if self._parent_snapshot_id is None:
            return []
        parent = self._transaction.table_metadata.snapshot_by_id(self._parent_snapshot_id)
        assert parent is not None
        return parent.manifests(self._io)

    def _manifests(self) -> list[ManifestFile]:
        """pyiceberg would write all added files into one, however large."""
        removed = self._deleted_entries()
        added = [
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=self._snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=file,
            )
            for file in self._added_data_files
        ]
        starts = range(0, len(added), MANIFEST_FILES)
        written = [self._write(added[at : at + MANIFEST_FILES]) for at in starts]
        specs = {entry.data_file.spec_id for entry in removed}
        written += [
            self._write([one for one in removed if one.data_file.spec_id == spec_id], spec_id)
            for spec_id in sorted(specs)
        ]
        return self._process_manifests(written + self._existing_manifests())

    def _existing_manifests(self) -> list[ManifestFile]:
        touched = set(self.remove.values())
        existing: list[ManifestFile] = []
        for manifest in self._parent_manifests():
            if manifest.manifest_path in touched:
                existing += self._without(manifest)
            elif manifest.has_added_files() or manifest.has_existing_files():
                existing.append(manifest)
        return existing

    def _write(self, entries: list[ManifestEntry], spec_id: int | None = None) -> ManifestFile:
        number = self._transaction.table_metadata.default_spec_id if spec_id is None else spec_id
        with self.new_manifest_writer(self.spec(number)) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()

    def _deleted_entries(self) -> list[ManifestEntry]:
        """Said in the snapshot that does it, and in none after it."""
        touched = set(self.remove.values())
        found = [
            entry
            for manifest in self._parent_manifests()
            if manifest.manifest_path in touched
            for entry in self.fetch_manifest_entry(manifest)
            if entry.data_file.file_path in self.remove
        ]
        self._deleted_data_files = {entry.data_file for entry in found}
        return [_as(entry, ManifestEntryStatus.DELETED, self._snapshot_id) for entry in found]

    def _without(self, manifest: ManifestFile) -> list[ManifestFile]:
        entries = [
            entry
            for entry in self.fetch_manifest_entry(manifest)
            if entry.data_file.file_path not in self.remove
        ]
        if not entries:
            return []
        existing = [_as(one, ManifestEntryStatus.EXISTING, one.snapshot_id) for one in entries]
        return [self._write(existing, manifest.partition_spec_id)]

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        manager = _ManifestMergeManager(
            target_size_bytes=MANIFEST_BYTES,
            min_count_to_merge=MANIFESTS_MERGED,
            merge_enabled=True,
            snapshot_producer=self,
        )
        deletions = [one for one in manifests if one.content is ManifestContent.DELETES]
        files = [one for one in manifests if one.content is ManifestContent.DATA]
        used = manager.merge_manifests(files) + deletions
        # What was written and merged at once is in no snapshot; it goes after the commit.
        paths = {manifest.manifest_path for manifest in used}
        self._uncommitted_manifests += [p for p in self._written_manifests if p not in paths]
        self._written_manifests = [p for p in self._written_manifests if p in paths]
        return used


def _as(
    entry: ManifestEntry, status: ManifestEntryStatus, snapshot_id: int | None
) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )
