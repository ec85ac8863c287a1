"""The same servers and stores as the stores' own tests."""

from __future__ import annotations

from tests.tiering.stores.conftest import (
    _credentials,
    directory_options,
    s3_address,
    s3_options,
)

__all__ = ["_credentials", "directory_options", "s3_address", "s3_options"]
