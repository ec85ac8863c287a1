"""`hdfs://`: objects as files of HDFS, over WebHDFS.

An object is written to `.uploads`, read back and compared, and given its name by one rename. Sums
and token are extended attributes. A closed file is as durable as HDFS makes it, by
replication and by `dfs.datanode.synconclose`.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable

from stratamq.model.errors import (
    CorruptObject,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    StoreUnavailable,
)
from stratamq.tiering.stores import walk
from stratamq.tiering.stores.attempts import Deadline
from stratamq.tiering.stores.backend import REMOTE_WINDOW_BYTES, Head, Tags
from stratamq.tiering.stores.contract import Page
from stratamq.tiering.stores.hdfs.webhdfs import WebHdfs
from stratamq.tiering.stores.source import UploadSource
from stratamq.wire.crc import crc32c

UPLOADS = ".uploads"
SUMS, TOKEN = "user.stratamq.sums", "user.stratamq.put"


class HdfsBackend:
    window_bytes = REMOTE_WINDOW_BYTES

    def __init__(self, hdfs: WebHdfs, root: str) -> None:
        self._hdfs = hdfs
        self._root = f"/{root}" if root else ""

    def put(self, key: str, source: UploadSource, tags: Tags, *, if_absent: bool) -> None:
        temporary = f"{self._root}/{UPLOADS}/{secrets.token_hex(16)}"
        try:
            self._hdfs.create(temporary, source)
            self._compare(key, temporary, source)
            self._tag(temporary, SUMS, tags.sums)
            self._tag(temporary, TOKEN, tags.token)
            self._name(temporary, self._path(key), if_absent)
        except BaseException:
            with contextlib.suppress(StoreError):
                self._hdfs.ask("DELETE", temporary, "DELETE")
            raise

    def head(self, key: str) -> Head:
        found = self._hdfs.ask("GET", self._path(key), "GETFILESTATUS")["FileStatus"]
        if found["type"] != "FILE":
            raise ObjectNotFound(key)
        answer = self._hdfs.ask("GET", self._path(key), "GETXATTRS", encoding="text")
        values = {
            each["name"]: str(each.get("value") or "").strip('"')
            for each in answer.get("XAttrs", ())
        }
        tags = Tags(values[SUMS], values.get(TOKEN, "")) if SUMS in values else None
        return Head(found["length"], found["modificationTime"], tags)

    def read(self, key: str, start: int, stop: int, deadline: Deadline) -> bytes:
        """Read a range. A DataNode does not announce how much it will send, so an answer that
        stops early looks complete: only its length shows the failure."""
        data = b"".join(self._hdfs.open(self._path(key), start, stop, deadline))
        if len(data) < stop - start:
            raise StoreUnavailable(f"{key}: {len(data)} bytes instead of {stop - start}")
        return data

    def list_page(self, prefix: str, after: str, limit: int) -> Page:
        return walk.page(self._entries, prefix, after, limit)

    def delete(self, key: str) -> None:
        """ObjectExists is ignored as well: it means a folder with files in it, not an object."""
        with contextlib.suppress(ObjectNotFound, ObjectExists):
            self._hdfs.ask("DELETE", self._path(key), "DELETE")

    def sweep(self, before_ms: int) -> int:
        old = [each for each in self._entries(UPLOADS) if each.modified_ms < before_ms]
        for each in old:
            self.delete(f"{UPLOADS}/{each.name}")
        return len(old)

    def close(self) -> None:
        self._hdfs.close()

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    def _compare(self, key: str, temporary: str, source: UploadSource) -> None:
        """HDFS checks its own disks and transfers; the way from here to HDFS has no other check."""
        whole = 0
        if len(source):
            for piece in self._hdfs.open(temporary, 0, len(source), source.deadline):
                whole = crc32c(piece, whole)
        if whole != source.sums.crc32c:
            raise CorruptObject(f"{key}: the store received other bytes")

    def _tag(self, path: str, name: str, value: str) -> None:
        given = {"xattr.name": name, "xattr.value": f'"{value}"', "flag": "CREATE"}
        self._hdfs.ask("PUT", path, "SETXATTR", **given)

    def _name(self, temporary: str, path: str, if_absent: bool) -> None:
        try:
            self._rename(temporary, path, if_absent)
        except ObjectNotFound:  # the folder
            self._hdfs.ask("PUT", path.rpartition("/")[0] or "/", "MKDIRS")
            self._rename(temporary, path, if_absent)

    def _rename(self, temporary: str, path: str, if_absent: bool) -> None:
        """Rename with an option, even `NONE`: that is the newer call, which never moves a file
        into a folder of that name."""
        rule = "NONE" if if_absent else "OVERWRITE"
        self._hdfs.ask("PUT", temporary, "RENAME", destination=path, renameoptions=rule)

    def _entries(self, folder: str) -> Iterable[walk.Entry]:
        path, after, remaining = self._path(folder).rstrip("/") or "/", "", 1
        while remaining:
            try:
                answer = self._hdfs.ask("GET", path, "LISTSTATUS_BATCH", startAfter=after)
            except ObjectNotFound:
                return
            listing = answer["DirectoryListing"]
            found = listing["partialListing"]["FileStatuses"]["FileStatus"]
            for each in found:
                name, is_folder = each["pathSuffix"], each["type"] == "DIRECTORY"
                if name:  # without a name it is the path itself, a file
                    yield walk.Entry(name, is_folder, each["length"], each["modificationTime"])
            remaining = listing["remainingEntries"] if found else 0
            after = found[-1]["pathSuffix"] if found else after
