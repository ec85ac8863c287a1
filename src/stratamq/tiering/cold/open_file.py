"""A Parquet file of history, open. It stands on pyarrow, which is loaded with the first of them."""

from __future__ import annotations

from stratamq.lake.parquet.lookups import key_in_group, tag_in_group
from stratamq.lake.parquet.pages import Buffers
from stratamq.lake.parquet.reading import ColdFile
from stratamq.lake.parquet.sinks import Footer
from stratamq.meta.tier.files import TierFile
from stratamq.tiering.cold.objects import ObjectSource


class OpenFile(ColdFile):
    """A file and where its bytes come from."""

    def __init__(self, source: ObjectSource, file: TierFile, buffers: Buffers) -> None:
        assert file.parquet, "asked for only where there is one"
        assert file.parquet_end, "a commit of a Parquet file names the sums of its end"
        super().__init__(source, file.parquet.key, Footer(*file.parquet_end), buffers=buffers)
        self.source = source
        self.shard = file.shard

    def offsets_of_key(self, number: int, key: bytes, end: int) -> list[int]:
        """Return the offsets of a key in a row group, newest first."""
        return key_in_group(self, number, key, end)

    def offsets_of_tag(self, number: int, tag: bytes, start: int, end: int) -> list[int]:
        """Return the offsets of a tag in a row group, oldest first."""
        return tag_in_group(self, number, tag, start, end)
