"""Batches, logs and brute-force answers for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from stratamq.log.contract import PlacedBatch
from stratamq.log.disk import Disk
from stratamq.log.index import IndexStore
from stratamq.log.kv import KVStore
from stratamq.log.shard_log import FileShardLog
from stratamq.model.errors import CorruptRecord
from stratamq.model.record import Record
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset, ShardName, TimestampMs
from stratamq.wire.kafka.records import (
    BatchHeader,
    Compression,
    decode_batch,
    encode_batch,
    iter_batches,
    read_header,
    scan_batch,
)

DATA = Path("/data")
NAME = ShardName("0123456789abcdef0123456789abcdef_0")
FOLDER = DATA / NAME
NOW = TimestampMs(1_700_000_000_000)
ROOM = 1 << 24

KEYS = tuple(b"key-%d" % number for number in range(5))
TAGS = (b"a", b"a/b", b"b", b"\xff")


def record(seed: int, size: int = 40) -> Record:
    """Different for every seed, in every respect that is indexed."""
    return Record(
        value=None if seed % 7 == 3 else (b"%d:" % seed).ljust(size, b"v"),
        key=None if seed % 6 == 5 else KEYS[seed % len(KEYS)],
        headers=((b"h", b"%d" % seed),) if seed % 3 else (),
        tags=(TAGS[seed % 4], *(TAGS[(seed + seed % 2) % 4] for _ in range(seed % 5 // 3))),
        timestamp=TimestampMs(NOW + seed * 10 - (seed * 37) % 60),
    )


def placed(data: bytes) -> PlacedBatch:
    header = read_header(data)
    scan = scan_batch(header, data, keys=True, tags=True, decompressed_max=ROOM)
    return PlacedBatch(header, (data,), scan)


def batch(
    base: int,
    records: Sequence[Record],
    epoch: int = 0,
    compression: Compression = Compression.NONE,
) -> PlacedBatch:
    return placed(
        encode_batch(
            records,
            now_ms=NOW,
            base_offset=base,
            leader_epoch=epoch,
            compression=compression,
        )
    )


def batches_from(
    base: int, counts: Sequence[int], epoch: int = 0, seed: int = 0
) -> list[PlacedBatch]:
    """Consecutive batches with these many records each."""
    made: list[PlacedBatch] = []
    for count in counts:
        records = [record(seed + base + number) for number in range(count)]
        made.append(batch(base, records, epoch))
        base += count
    return made


def open_log(disk: Disk, kv: KVStore, folder: Path = FOLDER, **config: object) -> FileShardLog:
    """An empty folder becomes a new shard's."""
    names = {name.replace("_", "."): value for name, value in config.items()}
    disk.make_folder(folder)
    fresh = not disk.names(folder)
    return FileShardLog(
        disk, folder, NAME, IndexStore(kv), TopicConfig.of(names), ROOM, fresh=fresh
    )


def commit(log: FileShardLog, batches: Sequence[PlacedBatch]) -> None:
    """Everything that comes before an acknowledgement."""
    log.append(batches)
    log.sync()
    log.flush_index()


class Damaged(NamedTuple):
    """Offsets that a reader was told it cannot have."""

    offset: Offset
    error: CorruptRecord


class Content(NamedTuple):
    """All that can be read from a log, and what cannot."""

    batches: list[tuple[BatchHeader, bytes]]
    damaged: list[Damaged]

    def records(self, start: int = 0) -> dict[int, Record]:
        return {
            found.offset: found
            for header, data in self.batches
            for found in decode_batch(header, data, ROOM)
            if found.offset >= start
        }


def read_log(log: FileShardLog, max_bytes: int = 300) -> Content:
    """From start to end in small steps, stepping over damage as its error says."""
    content = Content([], [])
    offset, end = log.start_offset, log.end_offset
    while offset < end:
        try:
            data = log.read(offset, max_bytes, end)
        except CorruptRecord as error:
            content.damaged.append(Damaged(offset, error))
            offset = after(error, offset)
            continue
        if not data:
            break
        for header, view in iter_batches(data):
            assert header.last_offset >= offset, "an answer begins where it was asked to"
            content.batches.append((header, bytes(view)))
            offset = header.next_offset
    return content


def after(error: CorruptRecord, offset: Offset) -> Offset:
    assert error.next_offset > offset, "a reader that steps over damage must get on"
    return Offset(error.next_offset)


def cut_at(size: int) -> Callable[[bytearray], None]:
    """Damage: only the first bytes are left."""

    def cut(content: bytearray) -> None:
        del content[size:]

    return cut


def verified_by_key(log: FileShardLog, records: dict[int, Record], key: bytes) -> list[int]:
    """What a look-up by key gives once each candidate was compared."""
    found = log.offsets_by_key(key, log.end_offset)
    return [at for at in _known(found) if at in records and records[at].key == key]


def verified_by_tag(log: FileShardLog, records: dict[int, Record], tag: bytes) -> list[int]:
    found = log.offsets_by_tag(tag, log.start_offset, log.end_offset)
    return [at for at in _known(found) if at in records and tag in records[at].tags]


def _known(offsets: Iterator[Offset] | None) -> Iterator[Offset]:
    assert offsets is not None, "the index is on"
    return offsets
