"""The four codecs of a batch's records: memory follows the limit, never a claimed length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from secrets import token_bytes
from struct import Struct

import cramjam

from stratamq.model.errors import BatchTooLarge, CorruptBatch, InvalidInput, UnsupportedFormat
from stratamq.wire.kafka.records._lz4 import unfilled, unpack_frame
from stratamq.wire.kafka.records.layout import CODEC_MASK, Buffer


class Compression(IntEnum):
    """As numbered in a batch's attributes. 5, 6 and 7 are not in use."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_CODECS = tuple(Compression)

EXPANSION_MAX = {
    Compression.NONE: 1,
    Compression.GZIP: 1032,  # 258 bytes from a length and a distance of one bit each
    Compression.SNAPPY: 22,  # 64 bytes from a copy element of three
    Compression.LZ4: 255,  # a byte that lengthens a match by 255
    Compression.ZSTD: 32768,  # 128 KiB from a run-length block of four bytes
}
"""What one byte can become at most, by the codec's format. More than that is a lie."""

GZIP_LEVEL = 6
ZSTD_LEVEL = 3
"""Kafka's defaults. The library's own default for zstd, 11, takes ten times as long."""

FIRST_CAPACITY_BYTES = 1 << 16
CAPACITY_FACTOR = 8
"""Most batches shrink by less than eight; those that shrank more cost further attempts."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_VERSIONS = b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_HEADER = XERIAL_MAGIC + XERIAL_VERSIONS
XERIAL_BLOCK_BYTES = 1 << 15
"""snappy-java frames raw snappy in blocks; Java's default block size."""

SCRATCH_BYTES_MAX = 16 << 20
"""Buffer that stays for the next batch. A batch that needs more gets a buffer of its own."""

LZ4_PIECE_BYTES = 1 << 18

_BLOCK_LENGTH = Struct(">i")
_MARK = token_bytes(16)


class Scratch:
    """A buffer to unpack into, for callers that read one batch at a time and keep nothing of it:
    new memory for each would cost as much as the unpacking."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def buffer(self, size: int) -> memoryview:
        if size > SCRATCH_BYTES_MAX:
            return memoryview(unfilled(size))
        if len(self._buffer) < size:
            self._buffer = unfilled(size)
        return memoryview(self._buffer)[:size]


def compress(codec: Compression, data: Buffer) -> bytes:
    """`data` as Java, librdkafka and the others expect it from this codec."""
    if codec is Compression.NONE:
        return bytes(data)
    if codec is Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, level=GZIP_LEVEL))
    if codec is Compression.SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec is Compression.LZ4:
        return _compress_lz4(data)
    return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL))


def decompress(
    codec: Compression, data: Buffer, limit: int, scratch: Scratch | None = None
) -> memoryview:
    """The bytes that `data` stands for; with a `scratch`, until it is used again.

    BatchTooLarge when they are more than `limit`, CorruptBatch when they cannot be had.
    """
    if codec is Compression.SNAPPY:
        return _decompress_snappy(memoryview(data), limit)
    if codec is Compression.NONE:
        if len(data) > limit:
            raise _too_large(codec, limit)
        return memoryview(data)
    return _decompress_framed(codec, data, limit, scratch or Scratch())


def codec_of(attributes: int) -> Compression:
    """The codec that a batch's attributes name."""
    codec = attributes & CODEC_MASK
    if codec >= len(_CODECS):
        raise UnsupportedFormat(f"compression codec {codec} is unknown")
    return _CODECS[codec]


# -- gzip, lz4, zstd: the library reads their frames, also several in a row ------------------------


_FRAMED: dict[Compression, Callable[[Buffer, memoryview], int]] = {
    Compression.GZIP: cramjam.gzip.decompress_into,
    Compression.LZ4: cramjam.lz4.decompress_into,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}


def _decompress_framed(
    codec: Compression, data: Buffer, limit: int, scratch: Scratch
) -> memoryview:
    capacity = min(limit, max(FIRST_CAPACITY_BYTES, len(data) * CAPACITY_FACTOR))
    try:
        while (unpacked := _attempt(codec, data, scratch.buffer(capacity + len(_MARK)))) is None:
            if capacity >= limit:
                raise _too_large(codec, limit)
            capacity = min(limit, capacity * CAPACITY_FACTOR)
    except InvalidInput:
        del scratch  # as in _attempt
        raise
    return unpacked


def _attempt(codec: Compression, data: Buffer, out: memoryview) -> memoryview | None:
    """What `data` unpacks to, or None when `out` is too small for that and the mark.

    The library fails with the same error for damage and for a full buffer. It fills the buffer
    first, though: a mark at its end tells which it was.
    """
    capacity = len(out) - len(_MARK)
    if codec is Compression.LZ4 and (unpacked := unpack_frame(data, out[:capacity])) is not None:
        return out[:unpacked]
    out[capacity:] = _MARK
    try:
        size = _FRAMED[codec](data, out)
    except cramjam.DecompressionError as error:
        damaged = out[capacity:] == _MARK
        del out  # code that keeps the error must not keep the buffer with it
        if damaged:
            raise CorruptBatch(f"the {codec.name.lower()} data is damaged: {error}") from error
        return None
    return out[:size] if size <= capacity else None


def _too_large(codec: Compression, limit: int) -> BatchTooLarge:
    return BatchTooLarge(f"the {codec.name.lower()} records are larger than {limit} bytes unpacked")


def _compress_lz4(data: Buffer) -> bytes:
    # Java refuses blocks that depend on each other, and has read content checksums in its own way.
    packer = cramjam.lz4.Compressor(block_linked=False, content_checksum=False)
    view = memoryview(data)
    for start in range(0, len(view), LZ4_PIECE_BYTES):  # the library holds the GIL for each of them
        packer.compress(bytes(view[start : start + LZ4_PIECE_BYTES]))
    return bytes(packer.finish())


# -- snappy: raw from librdkafka and Go, framed from Java and Python -------------------------------


def _compress_xerial(data: memoryview) -> bytes:
    parts = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit: int) -> memoryview:
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return memoryview(_decompress_raw(data, limit))
    out = bytearray()
    try:
        for block in _xerial_blocks(data):
            out += _decompress_raw(block, limit - len(out))
    except InvalidInput:
        out.clear()  # as in _attempt
        raise
    return memoryview(out)


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    """The raw blocks of one or more snappy-java streams, one after the other."""
    position = 0
    while position < len(data):
        if data[position : position + len(XERIAL_MAGIC)] == XERIAL_MAGIC:
            position += len(XERIAL_HEADER)
            continue
        start = position + _BLOCK_LENGTH.size
        if start > len(data):
            raise CorruptBatch("the snappy data ends within a block length")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        if not 0 < length <= len(data) - start:
            raise CorruptBatch(f"a snappy block of {length} bytes does not fit its frame")
        yield data[start : start + length]
        position = start + length
    if position > len(data):
        raise CorruptBatch("the snappy data ends within its header")


def _decompress_raw(data: memoryview, limit: int) -> bytearray:
    """One raw block. The length at its start is believed as far as its bytes can carry it."""
    try:
        claimed = cramjam.snappy.decompress_raw_len(data)
        if claimed > len(data) * EXPANSION_MAX[Compression.SNAPPY]:
            raise CorruptBatch(f"{len(data)} bytes of snappy data cannot become {claimed}")
        if claimed > limit:
            raise _too_large(Compression.SNAPPY, limit)
        out = unfilled(claimed)
        cramjam.snappy.decompress_raw_into(data, out)
    except cramjam.DecompressionError as error:
        out = bytearray()  # as in _attempt
        raise CorruptBatch(f"the snappy data is damaged: {error}") from error
    return out
