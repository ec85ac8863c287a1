"""The parts of kafka-python that the product is compared with."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # It reads its schemas by a deprecated call; that is its business, not ours.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2  # type: ignore[import-untyped]
    from kafka.record.default_records import (  # type: ignore[import-untyped]
        DefaultRecord,
        DefaultRecordBatch,
        DefaultRecordBatchBuilder,
    )

__all__ = ["DefaultRecord", "DefaultRecordBatch", "DefaultRecordBatchBuilder", "murmur2"]
