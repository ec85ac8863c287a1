"""What a store is opened with: its URL, its limits and its settings.

No secret is among them: credentials are found by AWS's own ways.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from stratamq.model.errors import InvalidConfig, InvalidName
from stratamq.tiering.stores.attempts import RetryPolicy
from stratamq.tiering.stores.contract import checked_key

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLimits:
    uploads_max: int = 4
    reads_max: int = 16
    connect_timeout_ms: int = 5_000
    timeout_ms: int = 20_000
    attempts_max: int = 5
    backoff_ms: int = 100
    backoff_ms_max: int = 5_000
    retry_ms_max: int = 60_000
    part_bytes: int = 16 * MIB

    @property
    def retry(self) -> RetryPolicy:
        return RetryPolicy(
            self.attempts_max, self.backoff_ms, self.backoff_ms_max, self.retry_ms_max
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The settings `store.*`; see docs/configuration.md."""

    url: str
    s3_endpoint: str = ""
    s3_region: str = ""
    s3_path_style: bool = False
    s3_profile: str = ""
    s3_credentials_file: str = ""
    hdfs_http_address: str = ""
    hdfs_user: str = ""
    limits: StoreLimits = field(default_factory=StoreLimits)


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
    """Parse a store's URL or raise InvalidConfig. Credentials before an @ are never repeated."""
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
    place, path = parts.netloc, unquote(parts.path)
    if parts.scheme == "file":
        return _local_folder(place, path)
    if parts.scheme == "s3" and not place:
        raise InvalidConfig("store.url: the bucket is missing: s3://bucket/prefix")
    if parts.scheme == "hdfs":
        host, _, port = place.partition(":")
        if not host:
            raise InvalidConfig("store.url: the host is missing: hdfs://host:8020/folder")
        if port and not port.isdigit():
            raise InvalidConfig(f"store.url: {port!r} is no port of {host}")
    prefix = path.strip("/")
    try:
        return StoreUrl(parts.scheme, place, checked_key(prefix) if prefix else "")
    except InvalidName as error:
        raise InvalidConfig(f"store.url: {error}") from None


def _local_folder(place: str, path: str) -> StoreUrl:
    if place not in ("", "localhost"):
        raise InvalidConfig(f"store.url: file://{place} is another machine; write file:///folder")
    if not path.startswith("/") or path == "/":
        raise InvalidConfig("store.url: file:// needs an absolute folder: file:///folder")
    return StoreUrl("file", "", str(Path(path)))
