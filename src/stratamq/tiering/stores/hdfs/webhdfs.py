"""WebHDFS: HDFS's file operations over HTTP, one method each. No Java and no native library.

The NameNode answers requests about names; for bytes it names a DataNode, which is asked in turn.
HDFS's remote exceptions become our errors by their class and never by their text.
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from urllib3 import BaseHTTPResponse, PoolManager, Timeout
from urllib3.exceptions import HTTPError

from stratamq.model.errors import (
    InvalidConfig,
    ObjectExists,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from stratamq.tiering.stores.attempts import Deadline, body_pieces
from stratamq.tiering.stores.options import StoreLimits, StoreOptions, StoreUrl
from stratamq.tiering.stores.source import UploadSource


class Standby(StoreUnavailable):
    """This NameNode is not the active one: ask the other."""


BY_EXCEPTION: dict[str, type[StoreError]] = {
    "FileNotFoundException": ObjectNotFound,
    "FileAlreadyExistsException": ObjectExists,
    "ParentNotDirectoryException": ObjectExists,
    "PathIsNotEmptyDirectoryException": ObjectExists,
    "AccessControlException": StoreDenied,
    "AuthorizationException": StoreDenied,
    "SecurityException": StoreDenied,
    "InvalidToken": StoreDenied,
    "StandbyException": Standby,
    "IllegalArgumentException": StoreError,
    "UnsupportedOperationException": StoreError,
}
"""Whatever else HDFS throws (safe mode, no DataNode, a lease, any IOException) may pass."""


def remote_error(status: int, body: bytes) -> StoreError:
    try:
        name = str(json.loads(body)["RemoteException"]["exception"])[:64]
    except (ValueError, KeyError, TypeError):
        name = None
    if name is None and status == 401:
        return StoreDenied("HDFS asks for a login; only its simple authentication is spoken here")
    kind = BY_EXCEPTION.get(name or "", StoreUnavailable)
    return kind(f"HDFS: {status} {name or ''}".rstrip())


HTTP_PORT = 9870
POOLS_MAX = 64
ANSWER_BYTES_MAX = 64 << 20

Json = dict[str, Any]


class WebHdfs:
    """May be used from several threads. The NameNode that last answered is asked first."""

    def __init__(self, addresses: list[str], user: str, limits: StoreLimits) -> None:
        self._addresses, self._user = addresses, user
        self._pool = PoolManager(
            POOLS_MAX,
            maxsize=limits.uploads_max + limits.reads_max,
            timeout=Timeout(
                connect=limits.connect_timeout_ms / 1000, read=limits.timeout_ms / 1000
            ),
            retries=False,
        )

    @classmethod
    def of(cls, url: StoreUrl, options: StoreOptions) -> WebHdfs:
        given = options.hdfs_http_address or f"{url.place.partition(':')[0]}:{HTTP_PORT}"
        addresses = [_address(each.strip()) for each in given.split(",")]
        return cls(addresses, options.hdfs_user or getpass.getuser(), options.limits)

    def ask(self, method: str, path: str, op: str, **params: str) -> Json:
        """Return the NameNode's answer. NameNodes that are down or in standby are skipped."""
        failure: StoreUnavailable | None = None
        for address in list(self._addresses):
            try:
                query = urlencode({"op": op, "user.name": self._user} | params, quote_via=quote)
                url = f"{address}/webhdfs/v1{quote(path)}?{query}"
                data = _checked(self._request(method, url))
                found: Json = dict(json.loads(data)) if data else {}
            except ValueError:
                failure = StoreUnavailable("the NameNode's answer is cut off")
                continue
            except (Standby, StoreUnavailable) as error:
                failure = StoreUnavailable(str(error))
                continue
            if self._addresses[0] != address:
                self._addresses = [address, *(a for a in self._addresses if a != address)]
            return found
        raise failure or StoreUnavailable("no NameNode")

    def create(self, path: str, source: UploadSource) -> None:
        where = self.ask("PUT", path, "CREATE", overwrite="true", noredirect="true")["Location"]
        headers = {"Content-Length": str(len(source)), "Content-Type": "application/octet-stream"}
        _checked(self._request("PUT", where, body=source.pieces(), headers=headers))

    def open(self, path: str, start: int, stop: int, deadline: Deadline) -> Iterator[bytes]:
        """The bytes of a range that is not empty, piece by piece."""
        asked = {"offset": str(start), "length": str(stop - start), "noredirect": "true"}
        where = self.ask("GET", path, "OPEN", **asked)["Location"]
        answer = self._request("GET", where)
        try:
            if answer.status != 200:
                _checked(answer)
            yield from body_pieces(answer, deadline)
        except (HTTPError, OSError) as error:
            raise StoreUnavailable(f"open {path}: {type(error).__name__}") from None
        finally:
            answer.close()

    def close(self) -> None:
        self._pool.clear()

    def _request(self, method: str, url: str, **more: Any) -> BaseHTTPResponse:
        try:
            return self._pool.request(method, url, preload_content=False, redirect=False, **more)
        except (HTTPError, OSError) as error:
            raise StoreUnavailable(f"HDFS: {type(error).__name__}") from None


def _checked(answer: BaseHTTPResponse) -> bytes:
    """Return the body, or raise the error that it reports."""
    try:
        data = answer.read(ANSWER_BYTES_MAX)
    except (HTTPError, OSError) as error:
        raise StoreUnavailable(f"HDFS: {type(error).__name__}") from None
    finally:
        answer.release_conn()
    if answer.status not in (200, 201):
        raise remote_error(answer.status, data)
    return data


def _address(given: str) -> str:
    base = given if "://" in given else f"http://{given}"
    if not base.startswith(("http://", "https://")) or base.endswith("://") or "@" in base:
        raise InvalidConfig("store.hdfs.http.address is not host:port or https://host:port")
    return base.rstrip("/")
