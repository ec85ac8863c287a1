from collections.abc import Sequence

from stratamq.model.record import Record
from stratamq.model.types import Offset
from stratamq.wire.kafka.records.batch import BatchHeader, BatchScan, BatchSpan
from stratamq.wire.kafka.records.layout import Buffer

def key_hash(data: Buffer) -> int: ...
def walk(data: Buffer, position: int = 0) -> list[BatchSpan]: ...
def intact(
    data: Buffer, first: int, bytes_max: int, end: int, whole: bool
) -> tuple[int, Offset]: ...
def find_batch(data: Buffer, offset: int, position: int = 0) -> int: ...
def scan_records(
    data: Buffer,
    start: int,
    stop: int,
    count: int,
    last_offset_delta: int,
    base_timestamp: int,
    consecutive: bool,
    keys: bool,
    tags: bool,
) -> tuple[bytes, bytes, int, bool]: ...
def find_faults(
    data: Buffer,
    start: int,
    stop: int,
    count: int,
    last_offset_delta: int,
    base_timestamp: int,
    keyless: bool,
    earliest: int,
    latest: int,
) -> list[int]: ...
def decode_records(
    data: Buffer,
    start: int,
    stop: int,
    count: int,
    last_offset_delta: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    wanted: list[int] | None,
) -> list[Record]: ...
def drop_deltas(
    data: Buffer,
    start: int,
    stop: int,
    count: int,
    last_offset_delta: int,
    dropped: list[int],
) -> tuple[bytes, int]: ...
def encode_records(
    records: Sequence[Record], now_ms: int, base_offset: int, keep_offsets: bool
) -> tuple[bytes, int, int, int]: ...
def accept_plain(
    data: Buffer, max_bytes: int, keys: bool, tags: bool
) -> tuple[BatchHeader, BatchScan] | None: ...
def accept_packed(data: Buffer, max_bytes: int) -> BatchHeader | None: ...
def scan_unpacked(data: Buffer, records: Buffer, keys: bool, tags: bool) -> BatchScan: ...
def place(
    header: BatchHeader, data: Buffer, base_offset: int, leader_epoch: int
) -> tuple[BatchHeader, tuple[Buffer, ...]]: ...
