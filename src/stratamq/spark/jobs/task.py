"""One file, on an executor: made, stored, and committed.

The records come from a node, as a reader of the topic gets them: wherever they are, without those
that are deleted, and with word of aborted transactions. So a job needs no way of its own into raw
segments, and cannot see anything else than readers do.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from stratamq.client import EARLIEST, Aborted, ClientOptions, FetchLimits, TopicPartition
from stratamq.client.failures import Refusal
from stratamq.client.fetching import Fetched
from stratamq.lake.declared import columns_of, columns_text, declared
from stratamq.meta.tier.files import ParquetEnd, TierObject
from stratamq.model.errors import OffsetOutOfRange, TimedOut
from stratamq.model.transaction import AbortedTxn
from stratamq.model.types import Offset, TopicId
from stratamq.spark.jobs.plan import FileRewrite
from stratamq.spark.reading import EMPTY_MAX, shared_client
from stratamq.tiering import keys
from stratamq.tiering.converter.convert import convert
from stratamq.tiering.converter.requests import Conversion, Converted, FileSums
from stratamq.tiering.mover.ship import Bandwidth, Shipper
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.lake import CommitLakeTopic, MadeFile
from stratamq.wire.kafka.records import ControlType, is_skip, iter_batches, walk
from stratamq.wire.kafka.records.control import read_mark

FETCH_BYTES = 8 << 20
SOURCE, PARQUET, LOG = "batches.log", "file.parquet", "file.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What all tasks of a job know. Picklable."""

    client: ClientOptions
    topic: str
    topic_id: TopicId
    owner: str
    store_url: str
    store: Mapping[str, str | bool] = field(default_factory=dict)
    value_format: str = "none"
    value_schema: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done. `overtaken` files were of no use any more when they were ready."""

    replaced: int = 0
    made: int = 0
    rows: int = 0
    size_bytes: int = 0
    overtaken: int = 0


def do(work: Work, wanted: FileRewrite) -> Outcome:
    """Make the file, and put it in the place of those it is made of."""
    made = make_file(work, wanted)
    commit = CommitLakeTopic(
        name=work.topic,
        partition_index=wanted.partition,
        replace=wanted.replaced,
        objects=wanted.objects,
        file=made,
    )
    client = shared_client(work.client)
    try:
        client.call(client.asyncio.commit_lake(commit))
    except Refusal as error:
        if error.code is not ErrorCode.INVALID_REQUEST:
            raise
        return Outcome(overtaken=1)
    return Outcome(len(wanted.replaced), 1, made.rows, made.size + made.log_size)


def make_file(work: Work, wanted: FileRewrite) -> MadeFile:
    """The file, stored and read back. Nothing names it yet."""
    with tempfile.TemporaryDirectory(prefix="stratamq-job-") as folder:
        place = Path(folder)
        with (place / SOURCE).open("wb") as sink:
            spans = _fetched(work, wanted, sink)
        made = convert(_conversion(work, wanted, spans, place))
        stored = asyncio.run(_stored(work, wanted, place, made))
    return _told(work, wanted, stored, made)


def _conversion(
    work: Work, wanted: FileRewrite, aborted: Sequence[AbortedTxn], place: Path
) -> Conversion:
    return Conversion(
        source=place / SOURCE,
        parquet=place / PARQUET if wanted.parquet else None,
        log=place / LOG if wanted.log else None,
        log_is_clean=True,
        partition=wanted.partition,
        base_offset=Offset(wanted.base),
        end_offset=Offset(wanted.end),
        start=Offset(wanted.start),
        aborted=tuple(aborted),
        value_format=work.value_format,
        value_schema=work.value_schema,
        notes={"stratamq.topic": work.topic},
    )


def _fetched(work: Work, wanted: FileRewrite, sink: BinaryIO) -> list[AbortedTxn]:
    aborted: set[Aborted] = set()
    marks: list[tuple[int, int]] = []
    for answer in _answers(work, wanted):
        aborted.update(answer.aborted)
        for header, batch in iter_batches(answer.data):
            if is_skip(header):
                continue  # it is for this answer, and no log has it
            if header.is_control and read_mark(header, batch).kind is ControlType.ABORT:
                marks.append((header.producer_id, header.base_offset))
            sink.write(batch)
    return aborted_spans(sorted(aborted), marks, wanted.end)


def aborted_spans(
    begun: Sequence[Aborted], marks: Sequence[tuple[int, int]], end: int
) -> list[AbortedTxn]:
    """From where each was begun to the mark that ended it, or to the end, if that comes later."""
    spans = []
    for one in begun:
        ends = [at for who, at in marks if who == one.producer_id and at >= one.first_offset]
        last = min(ends, default=end - 1)
        spans.append(AbortedTxn(one.producer_id, Offset(one.first_offset), Offset(last)))
    return spans


def _answers(work: Work, wanted: FileRewrite) -> Iterator[Fetched]:
    """Yield all batches of the range, in order, each once."""
    client = shared_client(work.client)
    place, limits = TopicPartition(work.topic, wanted.partition), FetchLimits(bytes_max=FETCH_BYTES)
    offset, empty = max(wanted.base, wanted.start), 0
    while offset < wanted.end:
        try:
            fetching = client.asyncio.fetch(
                place, offset, limits, committed=True, topic_id=bytes.fromhex(work.topic_id)
            )
            answer = client.call(fetching)
        except OffsetOutOfRange:
            start = client.call(client.asyncio.list_offsets({place: EARLIEST}))[place]
            if start <= offset:
                raise
            offset = start  # it has moved on since the job was planned
            continue
        spans = walk(answer.data)
        if spans:
            yield answer
            offset, empty = max(offset, spans[-1].last_offset + 1), 0
            continue
        empty += 1
        if empty > EMPTY_MAX:
            raise TimedOut(f"{place}: nothing came from offset {offset} on")


class Stored(NamedTuple):
    parquet: TierObject | None = None
    log: TierObject | None = None


async def _stored(work: Work, wanted: FileRewrite, place: Path, made: Converted) -> Stored:
    folder, token = keys.topic_folder(work.topic, work.topic_id), keys.new_token(work.owner)
    base, end = Offset(wanted.base), Offset(wanted.end)
    data_key = keys.data_key(folder, wanted.partition, base, end, token)
    raw, sidecars = keys.log_keys(folder, wanted.partition, base, token), made.sums or (None, None)
    store = await open_store(StoreOptions(url=work.store_url, **work.store))  # type: ignore[arg-type]
    try:
        shipper = Shipper(store, Bandwidth(0))

        async def shipped(key: str, path: Path, sums: FileSums | None) -> TierObject | None:
            if sums is None:
                return None
            stored = await shipper.upload(key, path, sums)
            await shipper.verify(stored)
            return stored

        log = place / LOG
        await shipped(raw.index, log.with_suffix(".index"), sidecars[0])
        await shipped(raw.timeindex, log.with_suffix(".timeindex"), sidecars[1])
        return Stored(
            await shipped(data_key, place / PARQUET, made.parquet),
            await shipped(raw.log, log, made.log),
        )
    finally:
        await store.close()


def _told(work: Work, wanted: FileRewrite, stored: Stored, made: Converted) -> MadeFile:
    parquet, log = (one or TierObject("", 0, 0) for one in stored)
    end = made.parquet_end or ParquetEnd(0, 0, 0, 0)
    columns = columns_text(columns_of(declared(work.value_format, work.value_schema)))
    return MadeFile(
        base_offset=wanted.base,
        end_offset=wanted.end,
        key=parquet.key or None,
        size=parquet.size,
        crc=parquet.crc,
        end_size=end.size,
        end_crc=end.crc,
        index_size=end.index_size,
        index_crc=end.index_crc,
        log_key=log.key or None,
        log_size=log.size,
        log_crc=log.crc,
        rows=made.rows,
        batches=made.batches,
        min_timestamp=made.min_timestamp,
        max_timestamp=made.max_timestamp,
        unparsed=made.unparsed,
        misfits=made.misfits,
        start=wanted.start,
        deleted=wanted.deleted,
        columns=columns if stored.parquet else "",
    )
