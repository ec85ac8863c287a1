"""HDFS's remote exceptions as our errors, by their class and never by their text."""

from __future__ import annotations

import json

from stratamq.model.errors import (
    ObjectExists,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)


class Standby(StoreUnavailable):
    """This NameNode is not the one in charge: ask the other."""


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
    name = _exception(body)
    if name is None and status == 401:
        return StoreDenied("HDFS asks for a login; only its simple authentication is spoken here")
    kind = BY_EXCEPTION.get(name or "", StoreUnavailable)
    return kind(f"HDFS: {status} {name or ''}".rstrip())


def _exception(body: bytes) -> str | None:
    try:
        return str(json.loads(body)["RemoteException"]["exception"])[:64]
    except (ValueError, KeyError, TypeError):
        return None
