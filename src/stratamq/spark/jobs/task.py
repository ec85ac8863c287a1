"""One file, on an executor.

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
from typing import BinaryIO

from stratamq.client import Aborted, ClientOptions, FetchLimits, TopicPartition
from stratamq.client.fetching import Fetched
from stratamq.lake.declared import columns_of, columns_text, declared
from stratamq.meta.tier import TierObject
from stratamq.model.errors import TimedOut
from stratamq.model.producer import AbortedTransaction
from stratamq.model.types import Offset, TopicId
from stratamq.spark.jobs.plan import Rewrite
from stratamq.spark.reading import shared_client
from stratamq.tiering import keys
from stratamq.tiering.mover.conversion import Conversion, Converted
from stratamq.tiering.mover.convert import convert
from stratamq.tiering.mover.pace import Bandwidth
from stratamq.tiering.mover.ship import Shipper
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions
from stratamq.wire.kafka.protocol.messages.lake import MadeFile
from stratamq.wire.kafka.records import ControlType, iter_batches, walk
from stratamq.wire.kafka.records.control import read_mark

FETCH_BYTES = 8 << 20
EMPTY_MAX = 4


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


def make_file(work: Work, wanted: Rewrite) -> MadeFile:
    """The file, stored and read back. Nothing names it yet."""
    with tempfile.TemporaryDirectory(prefix="stratamq-job-") as folder:
        log, parquet = Path(folder) / "batches.log", Path(folder) / "file.parquet"
        with log.open("wb") as sink:
            spans = _fetched(work, wanted, sink)
        made = convert(
            Conversion(
                source=log,
                parquet=parquet,
                partition=wanted.partition,
                base_offset=Offset(wanted.base),
                end_offset=Offset(wanted.end),
                aborted=tuple(spans),
                value_format=work.value_format,
                value_schema=work.value_schema,
                notes={"stratamq.topic": work.topic},
            )
        )
        stored = asyncio.run(_stored(work, wanted, parquet, made))
    return _told(work, wanted, stored, made)


def _fetched(work: Work, wanted: Rewrite, sink: BinaryIO) -> list[AbortedTransaction]:
    aborted: set[Aborted] = set()
    marks: list[tuple[int, int]] = []
    for answer in _answers(work, wanted):
        aborted.update(answer.aborted)
        for header, batch in iter_batches(answer.data):
            if header.is_control and read_mark(header, batch).kind is ControlType.ABORT:
                marks.append((header.producer_id, header.base_offset))
        sink.write(answer.data)
    return aborted_spans(sorted(aborted), marks, wanted.end)


def aborted_spans(
    begun: Sequence[Aborted], marks: Sequence[tuple[int, int]], end: int
) -> list[AbortedTransaction]:
    """From where each was begun to the mark that ended it, or to the end, if that comes later."""
    spans = []
    for one in begun:
        ends = [at for who, at in marks if who == one.producer_id and at >= one.first_offset]
        last = min(ends, default=end - 1)
        spans.append(AbortedTransaction(one.producer_id, Offset(one.first_offset), Offset(last)))
    return spans


def _answers(work: Work, wanted: Rewrite) -> Iterator[Fetched]:
    """All batches of the range, in order, each once."""
    client = shared_client(work.client)
    place, limits = TopicPartition(work.topic, wanted.partition), FetchLimits(bytes_max=FETCH_BYTES)
    offset, empty = wanted.base, 0
    while offset < wanted.end:
        answer = client.call(client.asyncio.fetch(place, offset, limits, committed=True))
        spans = walk(answer.data)
        if spans:
            yield answer
            offset, empty = max(offset, spans[-1].last_offset + 1), 0
            continue
        empty += 1
        if empty > EMPTY_MAX and answer.last_stable >= wanted.end:
            return  # what is left was compacted away
        if empty > EMPTY_MAX:
            raise TimedOut(f"{place}: nothing came from offset {offset} on")


async def _stored(work: Work, wanted: Rewrite, path: Path, made: Converted) -> TierObject:
    folder = keys.topic_folder(work.topic, work.topic_id)
    token = keys.new_token(work.owner)
    base, end = Offset(wanted.base), Offset(wanted.end)
    key = keys.data_key(folder, wanted.partition, base, end, token)
    store = await open_store(StoreOptions(url=work.store_url, **work.store))  # type: ignore[arg-type]
    try:
        shipper = Shipper(store, Bandwidth(0))
        assert made.parquet is not None, "a Parquet file was asked for"
        stored = await shipper.upload(key, path, made.parquet)
        await shipper.verify(stored)
        return stored
    finally:
        await store.close()


def _told(work: Work, wanted: Rewrite, stored: TierObject, made: Converted) -> MadeFile:
    assert made.parquet_end is not None, "a Parquet file was asked for"
    return MadeFile(
        base_offset=wanted.base,
        end_offset=wanted.end,
        key=stored.key,
        size=stored.size,
        crc=stored.crc,
        end_size=made.parquet_end.size,
        end_crc=made.parquet_end.crc,
        index_size=made.parquet_end.index_size,
        index_crc=made.parquet_end.index_crc,
        rows=made.rows,
        batches=made.batches,
        min_timestamp=made.min_timestamp,
        max_timestamp=made.max_timestamp,
        unparsed=made.unparsed,
        misfits=made.misfits,
        deleted=wanted.deleted,
        columns=columns_text(columns_of(declared(work.value_format, work.value_schema))),
    )
