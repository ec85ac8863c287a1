"""What Kafka has no messages for: where a topic's history lies, and making its table current.

They are ours alone. Their keys are far above Kafka's, and a client that does not know them passes
them over.
"""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    array,
    request,
    response,
    struct,
    wire,
)


@struct
class LakeTopic:
    name: str = wire(STRING)


@request(key=32000, versions="0", flexible="0+")
class DescribeLakeRequest:
    """Where topics' records are: one consistent cut, with every file of the object store."""

    topics: Sequence[LakeTopic] = wire(array(LakeTopic))


@struct
class LakeFile:
    """Offsets base..end-1. One that is not final holds what the log still has. It was made without
    records below `start`, and without `deleted` others. `pending`: it is stored, and the topic's
    table does not show it yet."""

    base_offset: int = wire(INT64)
    end_offset: int = wire(INT64)
    final: bool = wire(BOOL)
    parquet_key: str | None = wire(STRING, nullable=True, default=None)
    parquet_size: int = wire(INT64, default=0)
    log_key: str | None = wire(STRING, nullable=True, default=None)
    log_size: int = wire(INT64, default=0)
    rows: int = wire(INT64)
    min_timestamp: int = wire(INT64)
    max_timestamp: int = wire(INT64)
    log_bytes: int = wire(INT64)
    unparsed: int = wire(INT64, default=0)
    misfits: int = wire(INT64, default=0)
    columns: str = wire(STRING, default="")
    start: int = wire(INT64, tag=0, default=0)
    deleted: int = wire(INT64, tag=1, default=0)
    pending: bool = wire(BOOL, tag=2, default=False)


@struct
class LakePartition:
    """`deleted` are offsets that were deleted one by one and may still be in files. `moving`
    is the step at which a segment is that is on its way; its bytes are those of the step. `waiting`
    are segments that are due to move, as far as the mover has seen."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16, default=0)
    start_offset: int = wire(INT64, default=-1)
    local_start_offset: int = wire(INT64, default=-1)
    high_watermark: int = wire(INT64, default=-1)
    last_stable_offset: int = wire(INT64, default=-1)
    local_bytes: int = wire(INT64, default=0)
    moving: str | None = wire(STRING, nullable=True, default=None)
    moving_done: int = wire(INT64, default=0)
    moving_total: int = wire(INT64, default=0)
    deleted: Sequence[int] = wire(array(INT64), default=())
    files: Sequence[LakeFile] = wire(array(LakeFile), default=())
    waiting_segments: int = wire(INT64, tag=0, default=0)
    waiting_bytes: int = wire(INT64, tag=1, default=0)


@struct
class DescribedLake:
    """`table` is the Iceberg table's name, where there is one; `trouble` what went wrong last with
    the store, if something did. Where an S3 store is comes with its URL; its secrets are never
    sent. `log_append_time`: the nodes stamp records, as the topic is set now."""

    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    name: str = wire(STRING)
    topic_id: bytes = wire(UUID, default=bytes(16))
    store_url: str = wire(STRING, default="")
    value_format: str = wire(STRING, default="none")
    value_schema: str = wire(STRING, default="")
    table: str | None = wire(STRING, nullable=True, default=None)
    trouble: str | None = wire(STRING, nullable=True, default=None)
    partitions: Sequence[LakePartition] = wire(array(LakePartition), default=())
    s3_endpoint: str = wire(STRING, tag=0, default="")
    s3_region: str = wire(STRING, tag=1, default="")
    s3_path_style: bool = wire(BOOL, tag=2, default=False)
    log_append_time: bool = wire(BOOL, tag=3, default=False)


@response(key=32000, versions="0", flexible="0+")
class DescribeLakeResponse:
    """`time_ms` is what the node's clock shows."""

    throttle_time_ms: int = wire(INT32, default=0)
    topics: Sequence[DescribedLake] = wire(array(DescribedLake))
    time_ms: int = wire(INT64, tag=0, default=-1)


@request(key=32001, versions="0", flexible="0+")
class FlushLakeRequest:
    """Make everything that is decided visible in the topics' tables. Or, with `moves`, do what is
    due of their history: move segments, rewrite files without what was deleted, free local disks.
    A request that comes while such a run is under way waits for that one."""

    topics: Sequence[LakeTopic] = wire(array(LakeTopic))
    timeout_ms: int = wire(INT32, default=60000)
    moves: bool = wire(BOOL, tag=0, default=False)


@struct
class FlushedLake:
    """What became visible by it; with `moves`, what was moved, freed and rewritten."""

    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    name: str = wire(STRING)
    files: int = wire(INT32, default=0)
    rows: int = wire(INT64, default=0)
    moved_segments: int = wire(INT64, tag=0, default=0)
    moved_bytes: int = wire(INT64, tag=1, default=0)
    freed_bytes: int = wire(INT64, tag=2, default=0)
    rewritten_files: int = wire(INT64, tag=3, default=0)


@response(key=32001, versions="0", flexible="0+")
class FlushLakeResponse:
    throttle_time_ms: int = wire(INT32, default=0)
    topics: Sequence[FlushedLake] = wire(array(FlushedLake))


@struct
class MadeFile:
    """What a client wrote of a partition's records to the object store: a Parquet file, a
    raw log (`log`), or both.

    `end` and `index` are the Parquet file's footer and what lies before that; sums are CRC32C. It
    has no records below `start`, and `deleted` others are left out.
    """

    base_offset: int = wire(INT64)
    end_offset: int = wire(INT64)
    key: str | None = wire(STRING, nullable=True)
    size: int = wire(INT64)
    crc: int = wire(INT64)
    end_size: int = wire(INT64)
    end_crc: int = wire(INT64)
    index_size: int = wire(INT64)
    index_crc: int = wire(INT64)
    rows: int = wire(INT64)
    batches: int = wire(INT64)
    min_timestamp: int = wire(INT64)
    max_timestamp: int = wire(INT64)
    unparsed: int = wire(INT64, default=0)
    misfits: int = wire(INT64, default=0)
    deleted: int = wire(INT64, default=0)
    columns: str = wire(STRING, default="")
    start: int = wire(INT64, tag=0, default=0)
    log_key: str | None = wire(STRING, tag=1, nullable=True, default=None)
    log_size: int = wire(INT64, tag=2, default=0)
    log_crc: int = wire(INT64, tag=3, default=0)


@struct
class CommitLakeTopic:
    """The files of `partition_index` that begin at `replace` become `file`, as long as they are
    those whose objects are called `objects`."""

    name: str = wire(STRING)
    partition_index: int = wire(INT32)
    replace: Sequence[int] = wire(array(INT64))
    file: MadeFile = wire(MadeFile)
    objects: Sequence[str] = wire(array(STRING), tag=0, default=())


@request(key=32002, versions="0", flexible="0+")
class CommitLakeRequest:
    """Put files in place of others that hold the same records."""

    topics: Sequence[CommitLakeTopic] = wire(array(CommitLakeTopic))


@struct
class CommittedLake:
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    name: str = wire(STRING)


@response(key=32002, versions="0", flexible="0+")
class CommitLakeResponse:
    throttle_time_ms: int = wire(INT32, default=0)
    topics: Sequence[CommittedLake] = wire(array(CommittedLake))
