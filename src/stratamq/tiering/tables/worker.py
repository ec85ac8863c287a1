"""The process that writes manifests and Iceberg tables, one at a time, and gives way to others.

`python -m stratamq.tiering.tables.worker` reads its options from the first line, a request from
each further line, and answers in lines. It ends when its input does. Whatever that cuts off is made
good by the next request: see `stratamq.lake.tables.iceberg`.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sys
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from stratamq.lake.declared import columns_of, columns_text, declared, merged, parse_columns
from stratamq.lake.tables.catalog import CatalogOptions, open_catalog
from stratamq.lake.tables.iceberg import IcebergTables, WantedTable
from stratamq.lake.tables.manifest import manifest_bytes, manifest_of, table_columns
from stratamq.lake.tables.snapshots import SnapshotLimits
from stratamq.model.errors import TimedOut
from stratamq.model.types import TopicId
from stratamq.tiering import keys
from stratamq.tiering.converter.worker import give_way, listen
from stratamq.tiering.stores.contract import ObjectInfo
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.store import Store
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

T = TypeVar("T")

WAIT_S = 300.0
"""The store gives up long before, by its own settings."""


class StoreBlobs:
    """`lake.tables.blobs.Blobs` over a store whose event loop runs in another thread."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self.url = store.url
        self._store = store
        self._loop = loop
        self._infos: dict[str, ObjectInfo] = {}

    def size(self, key: str) -> int:
        """Remembered for the read that comes next: objects do not change."""
        info = self._wait(self._store.head(key))
        self._infos = {key: info}
        return info.size

    def read(self, key: str, start: int, stop: int) -> bytes:
        return self._wait(self._store.get_range(key, start, stop, info=self._infos.get(key)))

    def write(self, key: str, data: bytes) -> None:
        self._wait(self._store.put(key, data))

    def delete(self, key: str) -> None:
        self._wait(self._store.delete(key))

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result(WAIT_S)
        except TimeoutError:
            future.cancel()
            raise TimedOut(f"{self.url} did not answer within {WAIT_S:g} s") from None


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
        """Carry out a request. A failure is an answer too: the next topic may go well."""
        try:
            match decode_request(line):
                case WriteTable() as request:
                    return self._write(request)
                case DropTable() as request:
                    return self._drop(request.name, request.topic_id)
                case KeepTables() as request:
                    if self._options.catalog_uri == NO_CATALOG:
                        return Written()
                    gone = self._tables().others(request.topics)
                    for name, topic_id in gone:
                        self._drop(name, topic_id)
                    return Written(removed=len(gone))
        except Exception as error:
            return TableFailure(type(error).__name__, str(error) or repr(error))

    # -- doing it ----------------------------------------------------------------------------------

    def _write(self, request: WriteTable) -> Written:
        topic = request.topic
        folder = keys.topic_folder(topic.name, topic.topic_id)
        manifest = manifest_of(topic, request.files, request.revision)
        self._blobs().write(keys.manifest_key(folder), manifest_bytes(manifest))
        if self._options.catalog_uri == NO_CATALOG:
            return Written()
        if not topic.config.flag("lake.iceberg"):
            # A table that is no longer updated would soon name files that are gone.
            if topic.topic_id not in self._without:
                self._tables().drop(topic.name, topic.topic_id)
                self._without.add(topic.topic_id)
            return Written()
        self._without.discard(topic.topic_id)
        config = topic.config
        values = declared(str(config["lake.value.format"]), str(config["lake.value.schema"]))
        known = parse_columns(table_columns(request.files))
        done = self._tables().sync(
            WantedTable(
                name=topic.name,
                topic_id=topic.topic_id,
                folder=folder,
                columns=columns_text(merged((known, columns_of(values)))),
                files=request.files,
                revision=request.revision,
            )
        )
        return Written(done.added, done.removed, done.expired, done.rows)

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
