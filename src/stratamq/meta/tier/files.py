"""Files on object storage in the Meta Service: a shard's history and its table; their rows, and the
commands that change them.

A shard's files never overlap. A `final` one holds a whole sealed segment: once it is here, the
local copy may go. The others make the newest records of a table visible early; the log still has
their records, and a larger or final one replaces them later.

An object that nothing names any more is *retired*: it is deleted some time after, when no reader
can be using it.
"""

from __future__ import annotations

from typing import NamedTuple

from stratamq.meta.rows import Fields, RowFormat
from stratamq.model.dataclass import dataclass
from stratamq.model.types import EARLIEST, NO_TIMESTAMP, Offset, ShardName, TimestampMs


class TierObject(NamedTuple):
    """An object of the store. `crc` is the CRC32C of all its bytes."""

    key: str
    size: int
    crc: int


class ParquetEnd(NamedTuple):
    """Sizes and checksums of a Parquet file's footer and of the index before it."""

    size: int
    crc: int
    index_size: int
    index_crc: int


class TierKey(NamedTuple):
    shard: ShardName
    base_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TierFile:
    """One stretch of a shard, `base_offset..end_offset - 1`, in one or two formats.

    `log` is the segment as it was, with its sidecars `index` and `timeindex`. `columns` says what
    the typed columns are, the same text for the same columns; empty without any. `log_bytes` is
    what the stretch takes in the log. `deleted` is how many of its records were known to be deleted
    when it was made, and `start` where its shard began then: it has none of those, and none below.
    `written_ms` is what its age is counted from where no record has a timestamp of 0 or more.
    """

    shard: ShardName
    base_offset: Offset
    end_offset: Offset
    final: bool
    parquet: TierObject | None = None
    parquet_end: ParquetEnd | None = None
    log: TierObject | None = None
    index: TierObject | None = None
    timeindex: TierObject | None = None
    rows: int = 0
    batches: int = 0
    log_bytes: int = 0
    min_timestamp: TimestampMs = NO_TIMESTAMP
    max_timestamp: TimestampMs = NO_TIMESTAMP
    unparsed: int = 0
    misfits: int = 0
    deleted: int = 0
    start: Offset = EARLIEST
    columns: str = ""
    created_ms: TimestampMs = NO_TIMESTAMP
    written_ms: TimestampMs = NO_TIMESTAMP

    @property
    def largest_timestamp(self) -> TimestampMs:
        """As of a segment (`SegmentInfo`). A file of an earlier version, or of records that had
        timestamps until they were deleted, is as old as the file."""
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return self.written_ms if self.written_ms >= 0 else self.created_ms

    @property
    def key(self) -> TierKey:
        return TierKey(self.shard, self.base_offset)

    @property
    def objects(self) -> tuple[TierObject, ...]:
        found = (self.parquet, self.log, self.index, self.timeindex)
        return tuple(one for one in found if one is not None)

    @property
    def data_keys(self) -> frozenset[str]:
        """Of its objects, those with records in them: they distinguish one file from another."""
        return frozenset(one.key for one in (self.parquet, self.log) if one is not None)

    @property
    def size_bytes(self) -> int:
        return sum(one.size for one in self.objects)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredObject:
    """An object that no file names any more, since then."""

    object_key: str
    size: int
    since_ms: TimestampMs

    @property
    def key(self) -> str:
        return self.object_key


def _file(fields: Fields) -> TierFile:
    objects = {
        name: TierObject(*fields[name]) if fields[name] else None
        for name in ("parquet", "log", "index", "timeindex")
    }
    end = fields["parquet_end"]
    return TierFile(**{**fields, **objects, "parquet_end": ParquetEnd(*end) if end else None})


TIER_ROWS = (
    RowFormat(
        TierFile, b"f", lambda file: file.shard.encode() + b"/%020d" % file.base_offset, _file
    ),
    RowFormat(
        RetiredObject, b"d", lambda one: one.object_key.encode(), lambda row: RetiredObject(**row)
    ),
)


# -- commands --------------------------------------------------------------------------------------


class Replaced(NamedTuple):
    """Files that are to go, by their base offsets and by all their `data_keys`."""

    bases: tuple[Offset, ...]
    object_keys: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFiles:
    """Give a shard files, in place of others, all at once.

    `replace` names the files that go by their base offsets: NotFound when one is not there. Where
    `replaced_keys` are given, they are those files' `data_keys`. What is added must not overlap
    what stays, nor hold less than what it replaces. InvalidInput if not. Repeating a commit that
    was done changes nothing.
    """

    shard: ShardName
    add: tuple[TierFile, ...] = ()
    replace: tuple[Offset, ...] = ()
    replaced_keys: frozenset[str] = frozenset()
    now_ms: TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class DropFiles:
    """Forget files that lie wholly below a shard's start: retention or a trim took them."""

    shard: ShardName
    below: Offset
    now_ms: TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetObjects:
    """Retired objects that were deleted."""

    object_keys: tuple[str, ...]
