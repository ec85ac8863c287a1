"""The cold copy of a segment: a Parquet file that is a table, and out of which batches come back.

`write_file` makes one of a segment's bytes, `ColdFile` reads it as a log. Files and bytes only:
where they lie, and when they are made, is decided above. docs/formats/parquet.md has the format.
"""

from __future__ import annotations

from stratamq.lake.parquet.lookups import offsets_by_key, offsets_by_tag
from stratamq.lake.parquet.reading import ColdFile
from stratamq.lake.parquet.sinks import Footer
from stratamq.lake.parquet.sources import BytesSource, FileSource, Source, Span
from stratamq.lake.parquet.writing import (
    FileLayout,
    FileSummary,
    FileWriter,
    read_chunks,
    write_file,
)

__all__ = [
    "BytesSource",
    "ColdFile",
    "FileLayout",
    "FileSource",
    "FileSummary",
    "FileWriter",
    "Footer",
    "Source",
    "Span",
    "offsets_by_key",
    "offsets_by_tag",
    "read_chunks",
    "write_file",
]
