"""Stores that are elsewhere; their servers are those of the stores' own tests."""

from __future__ import annotations

from tests.tiering.stores.conftest import (
    _credentials,
    hdfs_address,
    hdfs_options,
    s3_address,
    s3_options,
)

__all__ = ["_credentials", "hdfs_address", "hdfs_options", "s3_address", "s3_options"]
