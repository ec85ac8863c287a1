"""What a record costs in the kernel and in the interpreter.

    .venv/bin/python benchmarks/records.py

Prints microseconds per record for 100-byte records with key and one tag, in batches of 16 KiB, and
microseconds per batch for what is done without looking at records. The plain-Python oracle of the
tests shows what it would cost without a kernel; it has no scan, so its decoding stands beside ours.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from stratamq.model.record import Record  # noqa: E402
from stratamq.model.types import LeaderEpoch, Offset  # noqa: E402
from stratamq.wire.kafka.records import (  # noqa: E402
    Compression,
    check_batch,
    decode_batch,
    decode_some,
    encode_batch,
    find_batch,
    place_batch,
    read_header,
    scan_batch,
    walk,
)
from tests.wire import oracle  # noqa: E402
from tests.wire.samples import plain  # noqa: E402

BATCH_BYTES = 16 << 10
RECORD_BYTES = 100
NOW = 1_700_000_000_000
ROUND_S = 0.1
ROUNDS = 5
UNPACKED_MAX = 1 << 24


def best_us(work: Callable[[], object]) -> float:
    """The fastest of a few rounds: the others measure what else the machine does."""
    work()
    best = float("inf")
    for _ in range(ROUNDS):
        runs, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < ROUND_S:
            work()
            runs += 1
        best = min(best, spent / runs)
    return best * 1e6


def sample() -> list[Record]:
    """As many 100-byte records as make a batch of 16 KiB."""
    tag, key_bytes = b"sensor/7", 12
    value = bytes(RECORD_BYTES - key_bytes - len(tag))
    one = len(encode_batch([Record(value, bytes(key_bytes), (), (tag,))], now_ms=NOW)) - 61
    return [Record(value, b"device-%05d" % i, (), (tag,)) for i in range((BATCH_BYTES - 61) // one)]


def per_record(records: list[Record]) -> list[tuple[str, float, float | None]]:
    data = encode_batch(records, now_ms=NOW)
    header = read_header(data)
    packed = encode_batch(records, now_ms=NOW, compression=Compression.LZ4)
    packed_header = read_header(packed)
    stamped = [plain(r._replace(timestamp=NOW, offset=i)) for i, r in enumerate(records)]  # type: ignore[arg-type]

    def scan(keys: bool, tags: bool) -> Callable[[], object]:
        return lambda: scan_batch(header, data, keys=keys, tags=tags, decompressed_max=UNPACKED_MAX)

    decode_plain = best_us(lambda: oracle_records(data))
    encode_plain = best_us(lambda: [oracle.encode_record(r, 0, NOW) for r in stamped])
    rows: list[tuple[str, Callable[[], object], float | None]] = [
        ("encode", lambda: encode_batch(records, now_ms=NOW), encode_plain),
        ("decode", lambda: decode_batch(header, data), decode_plain),
        ("decode, lz4", lambda: decode_batch(packed_header, packed), None),
        ("scan", scan(False, False), decode_plain),
        ("scan with keys", scan(True, False), decode_plain),
        ("scan with keys and tags", scan(True, True), decode_plain),
    ]
    count = len(records)
    return [
        (name, best_us(work) / count, None if slow is None else slow / count)
        for name, work, slow in rows
    ]


def oracle_records(data: bytes) -> list[oracle.PlainRecord]:
    """The oracle's decoding without its bitwise CRC, which would be an unfair comparison."""
    reader, records = oracle.Reader(data[61:]), []
    while not reader.at_end():
        records.append(oracle.decode_record(reader.take(reader.varint(32)), 0, NOW))
    return records


def per_batch(records: list[Record]) -> list[tuple[str, float]]:
    data = encode_batch(records, now_ms=NOW)
    header = read_header(data)
    many = data * 64
    rows: list[tuple[str, Callable[[], object], int]] = [
        ("check_batch", lambda: check_batch(data, UNPACKED_MAX), 1),
        ("place_batch", lambda: place_batch(header, data, Offset(9), LeaderEpoch(1)), 1),
        (
            "place_batch, append time",
            lambda: place_batch(header, data, Offset(9), LeaderEpoch(1), append_time_ms=NOW),
            1,
        ),
        ("decode_some, one record", lambda: decode_some(header, data, (50,)), 1),
        ("walk", lambda: walk(many), 64),
        ("find_batch, per hop", lambda: find_batch(many, 1 << 40), 64),
    ]
    return [(name, best_us(work) / batches) for name, work, batches in rows]


def main() -> None:
    records = sample()
    size = len(encode_batch(records, now_ms=NOW))
    print(f"{len(records)} records of {RECORD_BYTES} bytes in a batch of {size} bytes\n")
    print(f"{'us per record':<28}{'kernel':>10}{'python':>10}{'ratio':>8}")
    for name, fast, slow in per_record(records):
        beside = f"{slow:>10.2f}{slow / fast:>8.0f}" if slow is not None else ""
        print(f"{name:<28}{fast:>10.3f}{beside}")
    print(f"\n{'us per batch':<28}{'kernel':>10}")
    for name, fast in per_batch(records):
        print(f"{name:<28}{fast:>10.3f}")


if __name__ == "__main__":
    main()
