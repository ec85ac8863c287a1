"""From a file's footer to what Iceberg keeps about the file. No row is read."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatisticsCollector,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import BinaryType, StringType

from stratamq.lake.parquet.schema import TYPED_COLUMN
from stratamq.lake.tables.blobs import Blobs
from stratamq.meta.tier.files import TierFile
from stratamq.model.errors import CorruptObject
from stratamq.wire.crc import crc32c

READERS = 8
"""Footers that are fetched at once: a table that is rewritten has many."""

TEXT_BYTES = 16
"""So much of the smallest and largest text is stored, as Iceberg does for columns at the top."""


def data_files(files: Sequence[TierFile], metadata: TableMetadata, blobs: Blobs) -> list[DataFile]:
    """What a table says of these files. `metadata` has all the columns that they have."""
    columns = _plan(metadata)
    numbers = parquet_path_to_id_mapping(metadata.schema())

    def describe(file: TierFile) -> DataFile:
        statistics = data_file_statistics_from_parquet_metadata(
            _footer(file, blobs), columns, numbers
        )
        assert file.parquet is not None
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{blobs.url}/{file.parquet.key}",
            file_format=FileFormat.PARQUET,
            partition=statistics.partition(metadata.spec(), metadata.schema()),
            file_size_in_bytes=file.parquet.size,
            sort_order_id=None,
            spec_id=metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )

    if len(files) < 2:
        return [describe(file) for file in files]
    with ThreadPoolExecutor(READERS, "footers") as readers:
        return list(readers.map(describe, files))


def _footer(file: TierFile, blobs: Blobs) -> Any:
    """Read a file's footer. Arrow parses it only if its checksum is right: see
    docs/formats/parquet.md."""
    assert file.parquet is not None
    assert file.parquet_end is not None
    key, size, _ = file.parquet
    end = blobs.read(key, size - file.parquet_end.size, size)
    if crc32c(end) != file.parquet_end.crc:
        raise CorruptObject(f"{key}: its footer is not the one that was written")
    return pq.read_metadata(pa.BufferReader(end))


def _plan(metadata: TableMetadata) -> dict[int, StatisticsCollector]:
    """Plan the statistics of each column. Typed ones lie in a struct, where pyiceberg only counts;
    but queries ask for them most, and their bounds spare reading files."""
    plan = compute_statistics_plan(metadata.schema(), metadata.properties)
    texts = (StringType, BinaryType)
    text = MetricsMode(MetricModeTypes.TRUNCATE, TEXT_BYTES)
    full = MetricsMode(MetricModeTypes.FULL)
    return {
        number: replace(column, mode=text if isinstance(column.iceberg_type, texts) else full)
        if column.column_name.startswith(f"{TYPED_COLUMN}.")
        else column
        for number, column in plan.items()
    }
