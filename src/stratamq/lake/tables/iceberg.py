"""Topics as Iceberg tables.

A table is what the Meta Service says a topic's files are, and `sync` makes it so: what is missing
is added, what is too much is taken out, in one snapshot and without touching data. It only ever
looks at what the table has, so it may be cut off anywhere and repeated, and two may run at once:
the catalog lets one of them pass, and the other looks again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from stratamq.lake.tables.blobs import Blobs, key_of
from stratamq.lake.tables.commit import commit
from stratamq.lake.tables.errors import TableError, as_table_error
from stratamq.lake.tables.footers import data_files
from stratamq.lake.tables.shape import PROPERTIES, evolve, new_schema, partition_spec
from stratamq.lake.tables.snapshots import Listing, SnapshotLimits, due_in, expire, garbage
from stratamq.meta.tier.files import TierFile
from stratamq.model.errors import StrataError
from stratamq.model.shard import split_shard_name
from stratamq.model.types import TopicId

log = logging.getLogger(__name__)

ATTEMPTS_MAX = 10
TOPIC_ID = "stratamq.topic-id"
REVISION = "stratamq.revision"
OFFSETS = "stratamq.offsets"

Identifier = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTable:
    """What a table should be: a topic's files, and the columns of its values as a text."""

    name: str
    topic_id: TopicId
    folder: str
    """Key of the folder that the topic's objects are in."""
    columns: str
    files: Sequence[TierFile]
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """What was done. All zero: the table was right."""

    added: int = 0
    removed: int = 0
    expired: int = 0
    rows: int = 0
    """In the table, now."""


class IcebergTables:
    """The tables of a namespace. Calls wait for the catalog and the store, and are for one thread
    at a time; other processes may do the same."""

    def __init__(
        self,
        catalog: Catalog,
        blobs: Blobs,
        *,
        namespace: str,
        now_ms: Callable[[], int],
        limits: SnapshotLimits | None = None,
    ) -> None:
        self._catalog = catalog
        self._blobs = blobs
        self._shown = namespace
        self._namespace = tuple(namespace.split("."))
        self._now_ms = now_ms
        self._limits = limits or SnapshotLimits()
        self._listings: dict[str, Listing] = {}

    def sync(self, wanted: WantedTable) -> Synced:
        """Make the table what is wanted. TableError, or a store's error, when that fails."""
        with as_table_error(f"table {self._shown}.{wanted.name}"):
            for _ in range(ATTEMPTS_MAX):
                try:
                    return self._sync(wanted, self._table(wanted))
                except (CommitFailedException, NoSuchTableError, TableAlreadyExistsError):
                    continue  # another writer was faster: read the table again
        raise TableError(
            f"table {self._shown}.{wanted.name}: others changed it {ATTEMPTS_MAX} times"
        )

    def drop(self, name: str, topic_id: TopicId) -> bool:
        """Forget the table of a topic that is gone; False if there is none, or another's. The
        files are not touched."""
        with as_table_error(f"table {self._shown}.{name}"):
            self._listings.pop(name, None)
            try:
                table = self._catalog.load_table((*self._namespace, name))
                if table.properties.get(TOPIC_ID) != topic_id:
                    return False
                self._catalog.drop_table((*self._namespace, name))
            except NoSuchTableError:
                return False
            return True

    def others(self, topics: Mapping[str, TopicId]) -> list[tuple[str, TopicId]]:
        """Tables of topics that are not among these, ids by name. One that has the name of a topic
        is left to `sync`."""
        with as_table_error(f"namespace {self._shown}"):
            if not self._catalog.namespace_exists(self._namespace):
                return []
            listed = [identifier[-1] for identifier in self._catalog.list_tables(self._namespace)]
            found = []
            for name in listed:
                if name not in topics:
                    table = self._catalog.load_table((*self._namespace, name))
                    found.append((name, TopicId(table.properties.get(TOPIC_ID, ""))))
            return [one for one in found if one[1]]

    def close(self) -> None:
        self._catalog.close()

    # -- the table ---------------------------------------------------------------------------------

    def _table(self, wanted: WantedTable) -> Table:
        identifier = (*self._namespace, wanted.name)
        try:
            table = self._catalog.load_table(identifier)
        except NoSuchTableError:
            return self._create(identifier, wanted)
        owner = table.properties.get(TOPIC_ID)
        if owner is None:
            raise TableError(f"table {'.'.join(identifier)} is there already, and is no topic's")
        if owner == wanted.topic_id:
            return table
        log.info("table %s was that of a topic of this name that is gone", wanted.name)
        self._listings.pop(wanted.name, None)
        self._catalog.drop_table(identifier)
        return self._create(identifier, wanted)

    def _create(self, identifier: Identifier, wanted: WantedTable) -> Table:
        try:
            self._catalog.create_namespace_if_not_exists(self._namespace)
        except Exception:  # catalogs say in many ways that it was created just now
            if not self._catalog.namespace_exists(self._namespace):
                raise
        schema = new_schema(wanted.columns)
        return self._catalog.create_table(
            identifier,
            schema,
            location=f"{self._blobs.url}/{wanted.folder}",
            partition_spec=partition_spec(schema),
            properties={**PROPERTIES, TOPIC_ID: wanted.topic_id},
        )

    # -- its files ---------------------------------------------------------------------------------

    def _sync(self, wanted: WantedTable, table: Table) -> Synced:
        listing = self._listings.setdefault(wanted.name, Listing())
        there = listing.files(table)
        files = {
            f"{self._blobs.url}/{file.parquet.key}": file
            for file in in_table(wanted.files)
            if file.parquet is not None
        }
        add = [file for path, file in files.items() if path not in there]
        remove = {path: manifest for path, manifest in there.items() if path not in files}
        going = due_in(table.metadata, self._now_ms(), self._limits)
        self._commit(table, wanted, add, remove, going)
        return Synced(
            added=len(add),
            removed=len(remove),
            expired=len(going),
            rows=sum(file.rows for file in files.values()),
        )

    def _commit(
        self,
        table: Table,
        wanted: WantedTable,
        add: Sequence[TierFile],
        remove: Mapping[str, str],
        going: Sequence[Snapshot],
    ) -> None:
        transaction = table.transaction()
        changed = evolve(transaction, wanted.columns)
        if add or remove:
            described = data_files(add, transaction.table_metadata, self._blobs)
            commit(
                transaction,
                described,
                remove,
                {
                    REVISION: str(wanted.revision),
                    OFFSETS: json.dumps(offset_ranges(wanted.files), separators=(",", ":")),
                },
            )
        if going:
            expire(transaction, going)
        if changed or add or remove or going:
            committed = transaction.commit_transaction()
            self._clean(committed, going)

    def _clean(self, table: Table, going: Sequence[Snapshot]) -> None:
        """Delete metadata that no snapshot names any more. What a crash leaves is small and
        harmless."""
        if not going:
            return
        try:
            for path in garbage(table.metadata, going, table.io):
                self._blobs.delete(key_of(path, self._blobs))
        except (StrataError, OSError) as error:
            log.warning("table %s: old metadata stays: %s", ".".join(table.name()), error)


def in_table(files: Iterable[TierFile]) -> list[TierFile]:
    """Return the files that are Parquet and have a row."""
    return [file for file in files if file.parquet is not None and file.rows]


def offset_ranges(files: Iterable[TierFile]) -> dict[int, tuple[int, int]]:
    """First offset and end of what a table has, per partition."""
    ranges: dict[int, tuple[int, int]] = {}
    for file in in_table(files):
        partition = split_shard_name(file.shard)[1]
        first, end = ranges.get(partition, (file.base_offset, file.end_offset))
        ranges[partition] = min(first, file.base_offset), max(end, file.end_offset)
    return dict(sorted(ranges.items()))
