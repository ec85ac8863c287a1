"""The entries of a file's metadata that are ours."""

from __future__ import annotations

FORMAT_KEY = "stratamq.format"
FORMAT_VERSION = "1"
BLOCKS_KEY = "stratamq.batches"
VALUES_KEY = "stratamq.values"
