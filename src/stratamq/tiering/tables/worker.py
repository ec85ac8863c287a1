"""The process that writes manifests and Iceberg tables, one at a time, and gives way to others.

`python -m stratamq.tiering.tables.worker` is told in its first line what to work on, takes a
request in each further line and answers in lines. It ends when its input does. Whatever that cuts
off is made good by the next request: see `stratamq.lake.tables.iceberg`.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sys
import threading
import time

from stratamq.lake.declared import columns_of, columns_text, declared, merged, parse_columns
from stratamq.lake.tables.catalog import CatalogOptions, open_catalog
from stratamq.lake.tables.expiry import SnapshotLimits
from stratamq.lake.tables.iceberg import IcebergTables, WantedTable
from stratamq.lake.tables.manifest import manifest_of, table_columns
from stratamq.lake.tables.manifest_bytes import to_bytes
from stratamq.model.types import TopicId
from stratamq.tiering import keys
from stratamq.tiering.mover.worker import give_way, listen
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.store import Store
from stratamq.tiering.tables.blobs import StoreBlobs
from stratamq.tiering.tables.requests import (
    NO_CATALOG,
    Answer,
    DropTable,
    KeepTables,
    TableFailure,
    TableOptions,
    WriteTable,
    Written,
    decode_options,
    decode_request,
    encode_answer,
)


def main() -> None:
    give_way()
    logging.basicConfig(level=logging.ERROR)  # to stderr: last words
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(sys.stdin.buffer, lines), daemon=True).start()
    tables = Tables(decode_options(lines.get()))
    while True:
        answer = tables.answer(lines.get())
        sys.stdout.buffer.write(encode_answer(answer))
        sys.stdout.buffer.flush()


class Tables:
    """A store and a catalog, opened when they are first needed. Use it from one thread."""

    def __init__(self, options: TableOptions) -> None:
        self._options = options
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._store: Store | None = None
        self._iceberg: IcebergTables | None = None
        self._without: set[str] = set()

    def answer(self, line: bytes) -> Answer:
        """Whatever happens is an answer: the next topic may be another matter."""
        try:
            match decode_request(line):
                case WriteTable() as request:
                    return self._write(request)
                case DropTable() as request:
                    return self._drop(request.name, request.topic_id)
                case KeepTables() as request:
                    return self._keep(request)
        except Exception as error:
            return TableFailure(type(error).__name__, str(error) or repr(error))

    # -- doing it ----------------------------------------------------------------------------------

    def _write(self, request: WriteTable) -> Written:
        topic = request.topic
        folder = keys.topic_folder(topic.name, topic.topic_id)
        manifest = manifest_of(topic, request.files, request.revision)
        self._blobs().write(keys.manifest_key(folder), to_bytes(manifest))
        if self._options.catalog_uri == NO_CATALOG:
            return Written()
        if not topic.config.flag("lake.iceberg"):
            self._leave_out(topic.name, topic.topic_id)
            return Written()
        self._without.discard(topic.topic_id)
        return Written(*self._sync(request, folder))

    def _sync(self, request: WriteTable, folder: str) -> tuple[int, int, int, int]:
        config = request.topic.config
        values = declared(str(config["lake.value.format"]), str(config["lake.value.schema"]))
        known = parse_columns(table_columns(request.files))
        done = self._tables().sync(
            WantedTable(
                name=request.topic.name,
                topic_id=request.topic.topic_id,
                folder=folder,
                columns=columns_text(merged((known, columns_of(values)))),
                files=request.files,
                revision=request.revision,
            )
        )
        return done.added, done.removed, done.expired, done.rows

    def _leave_out(self, name: str, topic_id: TopicId) -> None:
        """A table that nobody keeps current would soon name files that are gone."""
        if topic_id not in self._without:
            self._tables().drop(name, topic_id)
            self._without.add(topic_id)

    def _keep(self, request: KeepTables) -> Written:
        if self._options.catalog_uri == NO_CATALOG:
            return Written()
        gone = self._tables().others(request.topics)
        for name, topic_id in gone:
            self._drop(name, topic_id)
        return Written(removed=len(gone))

    def _drop(self, name: str, topic_id: TopicId) -> Written:
        if self._options.catalog_uri != NO_CATALOG:
            self._tables().drop(name, topic_id)
        folder = keys.topic_folder(name, topic_id)
        blobs = self._blobs()
        for key in self._listed(keys.metadata_prefix(folder)):
            blobs.delete(key)
        blobs.delete(keys.manifest_key(folder))
        return Written()

    # -- what it needs -----------------------------------------------------------------------------

    def _blobs(self) -> StoreBlobs:
        if self._store is None:
            opened = open_store(self._options.store, may_be_new=False)  # the node has opened it
            opening = asyncio.run_coroutine_threadsafe(opened, self._loop)
            self._store = opening.result()
            self._stored = StoreBlobs(self._store, self._loop)
        return self._stored

    def _listed(self, prefix: str) -> list[str]:
        async def collect() -> list[str]:
            assert self._store is not None
            return [listed.key async for listed in self._store.list(prefix)]

        self._blobs()
        return asyncio.run_coroutine_threadsafe(collect(), self._loop).result()

    def _tables(self) -> IcebergTables:
        if self._iceberg is None:
            options = self._options
            catalog = CatalogOptions(
                uri=options.catalog_uri,
                path=options.catalog_path,
                warehouse=options.warehouse,
                namespace=options.namespace,
            )
            self._iceberg = IcebergTables(
                open_catalog(catalog, self._blobs()),
                self._blobs(),
                namespace=options.namespace,
                now_ms=lambda: int(time.time() * 1000),
                limits=SnapshotLimits(age_ms_max=options.snapshots_ms_max),
            )
        return self._iceberg


if __name__ == "__main__":
    main()
