"""`file:///folder`, `s3://bucket/prefix`, `hdfs://host:port/folder`: read, and refused in words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from stratamq.model.errors import InvalidConfig, InvalidName
from stratamq.tiering.stores import keys

SCHEMES = ("file", "s3", "hdfs")


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """`place` is the bucket of s3, the host (and port) of hdfs; `path` has no slash at its ends,
    but for a folder of this machine, which is absolute."""

    scheme: str
    place: str
    path: str

    def __str__(self) -> str:
        slash = "" if self.path.startswith("/") or not self.path else "/"
        return f"{self.scheme}://{self.place}{slash}{self.path}"


def parse_url(url: str) -> StoreUrl:
    """What the URL means, or InvalidConfig. What stands before an @ is never repeated."""
    if not url.isprintable() or "\\" in url:
        raise InvalidConfig("store.url has characters that no URL has")
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise InvalidConfig("store.url holds credentials: give them by AWS's own ways instead")
    if parts.query or parts.fragment:
        raise InvalidConfig("store.url takes no ? or #: the rest are settings of their own")
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise InvalidConfig(f"store.url: {parts.scheme or 'no scheme'!r} is not one of {known}")
    return _PARSERS[parts.scheme](parts.netloc, unquote(parts.path))


def _file(place: str, path: str) -> StoreUrl:
    if place not in ("", "localhost"):
        raise InvalidConfig(f"store.url: file://{place} is another machine; write file:///folder")
    if not path.startswith("/") or path == "/":
        raise InvalidConfig("store.url: file:// needs an absolute folder: file:///folder")
    return StoreUrl("file", "", str(Path(path)))


def _s3(place: str, path: str) -> StoreUrl:
    if not place:
        raise InvalidConfig("store.url: the bucket is missing: s3://bucket/prefix")
    return StoreUrl("s3", place, _prefix(path))


def _hdfs(place: str, path: str) -> StoreUrl:
    if not place or place.startswith(":"):
        raise InvalidConfig("store.url: the host is missing: hdfs://host:8020/folder")
    host, _, port = place.partition(":")
    if port and not port.isdigit():
        raise InvalidConfig(f"store.url: {port!r} is no port of {host}")
    return StoreUrl("hdfs", place, _prefix(path))


def _prefix(path: str) -> str:
    path = path.strip("/")
    if not path:
        return ""
    try:
        return keys.checked(path)
    except InvalidName as error:
        raise InvalidConfig(f"store.url: {error}") from None


_PARSERS = {"file": _file, "s3": _s3, "hdfs": _hdfs}
