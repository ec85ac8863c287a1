"""Record batch v2: the one unit that is received, stored, replicated, fetched and tiered.

Bytes that came from outside go through `accept_batch`, `check_batch`, or `read_header` and
`check_crc`. Every function here either succeeds or raises one of the InvalidInput errors; none
allocates from a length or count before it was held against the bytes that are there.
"""

from __future__ import annotations

from stratamq.wire.kafka.records import _kernel
from stratamq.wire.kafka.records.batch import (
    EMPTY_SCAN,
    ENTRY_BYTES,
    BatchHeader,
    BatchScan,
    BatchSpan,
    check_batch,
    check_crc,
    iter_batches,
    read_header,
)
from stratamq.wire.kafka.records.compression import Compression, Scratch, compress, decompress
from stratamq.wire.kafka.records.control import (
    ControlType,
    control_type,
    encode_control,
    encode_skip,
    is_skip,
)
from stratamq.wire.kafka.records.decode import DECOMPRESSED_MAX, decode_batch, decode_some
from stratamq.wire.kafka.records.encode import Packed, encode_batch, pack_batch, pack_records
from stratamq.wire.kafka.records.layout import HEADER_BYTES, Buffer
from stratamq.wire.kafka.records.rewrite import drop_records, move_batch, place_batch
from stratamq.wire.kafka.records.scan import (
    accept_batch,
    accept_plain,
    find_faults,
    key_hash,
    scan_batch,
)

__all__ = [
    "DECOMPRESSED_MAX",
    "EMPTY_SCAN",
    "ENTRY_BYTES",
    "HEADER_BYTES",
    "BatchHeader",
    "BatchScan",
    "BatchSpan",
    "Buffer",
    "Compression",
    "ControlType",
    "Packed",
    "Scratch",
    "accept_batch",
    "accept_plain",
    "check_batch",
    "check_crc",
    "compress",
    "control_type",
    "decode_batch",
    "decode_some",
    "decompress",
    "drop_records",
    "encode_batch",
    "encode_control",
    "encode_skip",
    "find_batch",
    "find_faults",
    "intact",
    "is_skip",
    "iter_batches",
    "key_hash",
    "move_batch",
    "pack_batch",
    "pack_records",
    "place_batch",
    "read_header",
    "scan_batch",
    "walk",
]

walk = _kernel.walk
find_batch = _kernel.find_batch
intact = _kernel.intact
