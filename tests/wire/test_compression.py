"""The four codecs: what other clients write, what they can read, and what bombs do."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from types import ModuleType

import cramjam
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from stratamq.model.errors import BatchTooLarge, CorruptBatch, InvalidInput
from stratamq.wire.kafka.records import Compression, compress, decompress
from stratamq.wire.kafka.records.compression import EXPANSION_MAX, XERIAL_BLOCK_BYTES, XERIAL_HEADER
from tests.wire.samples import ROOM

PACKED = list(Compression)[1:]
TEXT = b"the same words again and again, " * 3000
XERIAL_BIG_ENDIAN = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
XERIAL_LITTLE_ENDIAN = b"\x82SNAPPY\0" + struct.pack("<ii", 1, 1)


def xerial(*blocks: bytes, header: bytes = XERIAL_BIG_ENDIAN) -> bytes:
    packed = [snappy.compress(block) for block in blocks]
    return header + b"".join(struct.pack(">i", len(block)) + block for block in packed)


def zstd_stream(data: bytes, **options: int) -> bytes:
    """A frame that does not tell its content size, as streaming writers make it."""
    parameters = zstandard.ZstdCompressionParameters(write_content_size=0, **options)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("codec", Compression)
@given(data=st.binary(max_size=2000) | st.binary(max_size=50).map(lambda part: part * 5000))
def test_round_trip(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), ROOM) == data
    assert decompress(codec, memoryview(compress(codec, memoryview(data))), ROOM) == data


# -- what others write ---------------------------------------------------------------------------

FOREIGN = {
    "gzip": (Compression.GZIP, gzip.compress(TEXT)),
    "gzip, two members": (
        Compression.GZIP,
        gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:]),
    ),
    "snappy, raw": (Compression.SNAPPY, snappy.compress(TEXT)),
    "snappy, framed": (Compression.SNAPPY, xerial(TEXT)),
    "snappy, framed in blocks": (
        Compression.SNAPPY,
        xerial(TEXT[:7], TEXT[7:50_000], TEXT[50_000:]),
    ),
    "snappy, versions in the other byte order": (
        Compression.SNAPPY,
        xerial(TEXT, header=XERIAL_LITTLE_ENDIAN),
    ),
    "snappy, two streams": (Compression.SNAPPY, xerial(TEXT[:999]) + xerial(TEXT[999:])),
    "lz4": (Compression.LZ4, lz4.frame.compress(TEXT, block_linked=False)),
    "lz4, all checksums": (
        Compression.LZ4,
        lz4.frame.compress(TEXT, content_checksum=True, block_checksum=True, store_size=False),
    ),
    "lz4, two frames": (
        Compression.LZ4,
        lz4.frame.compress(TEXT[:77]) + lz4.frame.compress(TEXT[77:]),
    ),
    "zstd": (Compression.ZSTD, zstandard.ZstdCompressor().compress(TEXT)),
    "zstd, size untold": (Compression.ZSTD, zstd_stream(TEXT)),
    "zstd, two frames": (Compression.ZSTD, zstd_stream(TEXT[:5]) + zstd_stream(TEXT[5:])),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_others_write_is_read(name: str) -> None:
    codec, packed = FOREIGN[name]
    assert decompress(codec, packed, ROOM) == TEXT


# -- what others can read ------------------------------------------------------------------------


def test_others_read_our_gzip_lz4_and_zstd() -> None:
    assert gzip.decompress(compress(Compression.GZIP, TEXT)) == TEXT
    assert lz4.frame.decompress(compress(Compression.LZ4, TEXT)) == TEXT
    ours = compress(Compression.ZSTD, TEXT)
    assert zstandard.ZstdDecompressor().stream_reader(ours).read() == TEXT


def test_our_lz4_frame_is_one_that_java_reads() -> None:
    packed = compress(Compression.LZ4, TEXT * 3)
    info = lz4.frame.get_frame_info(packed)
    assert info["block_linked"] is False, "blocks that depend on each other are refused"
    assert info["content_checksum"] is False, "read in more than one way"
    assert packed[4] >> 6 == 1
    assert packed[5] & 0x8F == 0


def test_our_snappy_is_framed_as_java_frames_it() -> None:
    packed = compress(Compression.SNAPPY, TEXT)
    assert packed.startswith(XERIAL_BIG_ENDIAN)
    assert XERIAL_HEADER == XERIAL_BIG_ENDIAN
    position, blocks = 16, []
    while position < len(packed):
        (size,) = struct.unpack_from(">i", packed, position)
        blocks.append(snappy.decompress(packed[position + 4 : position + 4 + size]))
        position += 4 + size
    assert b"".join(blocks) == TEXT
    assert {len(block) for block in blocks[:-1]} == {XERIAL_BLOCK_BYTES}


# -- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FOREIGN)
def test_every_cut_is_noticed(name: str) -> None:
    """A cut between two frames leaves a whole frame: there the count of records tells."""
    codec, packed = FOREIGN[name]
    whole_prefixes = 0
    for cut in range(len(packed)):
        try:
            unpacked = decompress(codec, packed[:cut], ROOM)
        except CorruptBatch:
            continue
        assert unpacked != TEXT
        assert TEXT.startswith(bytes(unpacked))
        whole_prefixes += 1
    assert whole_prefixes <= 4


@pytest.mark.parametrize("codec", PACKED)
@given(data=st.data())
def test_damage_is_named_or_harmless(codec: Compression, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, TEXT[:3000]))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(packed) - 1))
        packed[position] = data.draw(st.integers(0, 255))
    with suppress(InvalidInput):
        assert len(decompress(codec, packed, ROOM)) <= ROOM


@pytest.mark.parametrize("codec", PACKED)
@given(data=st.binary(max_size=300))
def test_noise_is_named_or_harmless(codec: Compression, data: bytes) -> None:
    for prefix in (b"", compress(codec, b"x")[:10], XERIAL_HEADER):
        with suppress(InvalidInput):
            assert len(decompress(codec, prefix + data, ROOM)) <= ROOM


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        XERIAL_HEADER[:12],
        XERIAL_HEADER + b"\0\0",
        XERIAL_HEADER + b"\0\0\0\0",
        XERIAL_HEADER + struct.pack(">i", -1),
        XERIAL_HEADER + struct.pack(">i", 1 << 30) + b"abc",
        b"\xff\xff\xff\xff\x0f" + b"abc",  # says 4 GiB
        b"\xff\xff\xff\xff\xff\xff\xff",
    ],
)
def test_impossible_snappy_is_corrupt(packed: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(Compression.SNAPPY, packed, 1 << 40)


# -- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 1000, 1 << 16, (1 << 16) + 1, 1 << 20])
@pytest.mark.parametrize("codec", PACKED)
def test_the_limit_is_exact(codec: Compression, size: int) -> None:
    packed = compress(codec, bytes(size))
    assert decompress(codec, packed, size) == bytes(size)
    if size:
        with pytest.raises(BatchTooLarge):
            decompress(codec, packed, size - 1)


def test_uncompressed_bytes_have_the_same_limit() -> None:
    assert decompress(Compression.NONE, b"abc", 3) == b"abc"
    with pytest.raises(BatchTooLarge):
        decompress(Compression.NONE, b"abcd", 3)


@pytest.mark.parametrize("codec", PACKED)
def test_no_codec_expands_more_than_its_format_allows(codec: Compression) -> None:
    """The bound that absurd counts are refused by must never refuse a real batch."""
    zeros = bytes(1 << 22)
    best = {
        Compression.GZIP: gzip.compress(zeros, 9),
        Compression.SNAPPY: snappy.compress(zeros),
        Compression.LZ4: lz4.frame.compress(zeros, block_size=lz4.frame.BLOCKSIZE_MAX4MB),
        Compression.ZSTD: zstd_stream(zeros, compression_level=19),
    }[codec]
    assert len(zeros) <= len(best) * EXPANSION_MAX[codec]


BOMB = """
import resource, sys
from stratamq.model.errors import BatchTooLarge
from stratamq.wire.kafka.records import Compression, decompress
codec, bomb, limit = Compression(int(sys.argv[1])), sys.stdin.buffer.read(), int(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, bomb, limit)
except BatchTooLarge:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_takes_no_more_memory_than_the_limit(codec: Compression) -> None:
    part = bytes(1 << 23)
    bomb = {
        Compression.GZIP: lambda: gzip.compress(part) * 64,
        Compression.SNAPPY: lambda: xerial(part, *[part] * 9),
        Compression.LZ4: lambda: lz4.frame.compress(part) * 64,
        Compression.ZSTD: lambda: zstd_stream(part, window_log=27) * 64,
    }[codec]()
    limit = 1 << 22
    run = subprocess.run(
        [sys.executable, "-c", BOMB, str(int(codec)), str(limit)],
        input=bomb,
        capture_output=True,
        check=True,
        timeout=60,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    grown_kib = int(run.stdout)
    assert grown_kib < 4 * limit // 1024, f"{len(bomb)} bytes became {grown_kib} KiB"


def test_a_window_larger_than_kafka_allows_is_refused() -> None:
    huge = zstd_stream(TEXT, window_log=28)
    with pytest.raises(CorruptBatch):
        decompress(Compression.ZSTD, huge, ROOM)


@pytest.mark.parametrize("module", [cramjam.gzip, cramjam.lz4, cramjam.zstd])
def test_the_library_fills_a_buffer_before_it_gives_up(module: ModuleType) -> None:
    """Telling a full buffer from damaged data depends on it."""
    out = bytearray(1000)
    with pytest.raises(cramjam.DecompressionError):
        module.decompress_into(module.compress(TEXT), out)
    assert out == TEXT[:1000]


@pytest.mark.parametrize("name", ["gzip", "snappy, raw", "snappy, framed in blocks", "lz4", "zstd"])
def test_a_kept_error_keeps_no_buffer(name: str) -> None:
    codec, packed = FOREIGN[name]
    damaged = bytearray(packed)
    damaged[-20:] = bytes(20)
    whole = compress(codec, bytes(1 << 20))
    errors = []
    tracemalloc.start()
    try:
        for _ in range(20):
            for data, limit in ((damaged, 1 << 20), (whole, 1 << 19)):
                with pytest.raises(InvalidInput) as caught:
                    decompress(codec, data, limit)
                errors.append(caught.value)
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
    assert {type(error) for error in errors} == {CorruptBatch, BatchTooLarge}
