"""Stores for tables: those of the stores' own tests."""

from __future__ import annotations

from tests.tiering.stores.conftest import (  # noqa: F401
    _credentials,
    directory_options,
    s3_address,
    s3_options,
)
