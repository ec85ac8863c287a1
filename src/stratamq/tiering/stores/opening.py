"""From a URL and settings to an open store. Libraries are imported only for the stores that are
used."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from pathlib import Path

from stratamq.model.config import NodeConfig
from stratamq.model.errors import InvalidConfig
from stratamq.tiering.stores.backend import Backend
from stratamq.tiering.stores.directory import DirectoryBackend
from stratamq.tiering.stores.options import StoreLimits, StoreOptions, StoreUrl, parse_url
from stratamq.tiering.stores.store import Store

COLD_FOLDER = "cold"

_LIMITS = {
    "uploads_max": "store.uploads.max",
    "reads_max": "store.reads.max",
    "connect_timeout_ms": "store.connect.timeout.ms",
    "timeout_ms": "store.timeout.ms",
    "attempts_max": "store.attempts.max",
    "backoff_ms": "store.backoff.ms",
    "backoff_ms_max": "store.backoff.max.ms",
    "retry_ms_max": "store.retry.ms.max",
    "part_bytes": "store.part.bytes",
}

assert set(_LIMITS) == {field.name for field in fields(StoreLimits)}, "each limit is a setting"


def options_of(config: NodeConfig) -> StoreOptions:
    """Read the options of a node's store from its settings."""
    default = (config.data_dir.absolute() / COLD_FOLDER).as_uri()
    return StoreOptions(
        url=config.text("store.url") or default,
        s3_endpoint=config.text("store.s3.endpoint"),
        s3_region=config.text("store.s3.region"),
        s3_path_style=config.flag("store.s3.path.style"),
        s3_profile=config.text("store.s3.profile"),
        s3_credentials_file=config.text("store.s3.credentials.file"),
        hdfs_http_address=config.text("store.hdfs.http.address"),
        hdfs_user=config.text("store.hdfs.user"),
        limits=StoreLimits(**{field: config.number(name) for field, name in _LIMITS.items()}),
    )


async def open_store(options: StoreOptions, *, may_be_new: bool = True) -> Store:
    """The store of `options.url`. It need not be up: only a local folder is looked at, and made
    where it is not there and `may_be_new`; else StoreUnavailable."""
    url = parse_url(options.url)
    backend = await asyncio.to_thread(_backend, url, options, may_be_new)
    return Store(str(url), backend, options.limits)


def _backend(url: StoreUrl, options: StoreOptions, may_be_new: bool) -> Backend:
    if url.scheme == "file":
        return DirectoryBackend(Path(url.path), may_be_new=may_be_new)
    try:
        if url.scheme == "s3":
            from stratamq.tiering.stores.s3.backend import S3Backend
            from stratamq.tiering.stores.s3.client import make_client

            return S3Backend(make_client(options), url.place, url.path)
        from stratamq.tiering.stores.hdfs.backend import HdfsBackend
        from stratamq.tiering.stores.hdfs.webhdfs import WebHdfs

        return HdfsBackend(WebHdfs.of(url, options), url.path)
    except ModuleNotFoundError as error:
        raise InvalidConfig(
            f"{url.scheme}:// needs {error.name}: pip install 'stratamq[lake]'"
        ) from None
