"""Files of topics on a real store, made as the mover makes them."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Sequence

from stratamq.lake.declared import columns_of, columns_text, declared
from stratamq.lake.parquet.values import value_columns
from stratamq.lake.parquet.writing import FileLayout, write_file
from stratamq.lake.tables.blobs import Blobs
from stratamq.lake.tables.iceberg import WantedTable
from stratamq.lake.tables.manifest import table_columns
from stratamq.meta.tier.files import ParquetEnd, TierFile, TierObject
from stratamq.model.record import Record
from stratamq.model.shard import shard_name
from stratamq.model.transaction import AbortedTxn
from stratamq.model.types import Offset, TimestampMs, TopicId
from stratamq.tiering import keys
from stratamq.wire.kafka.records import encode_batch

TOPIC_ID = TopicId("ab" * 16)
OWNER = keys.owner_mark("tests")
SECOND = 1_700_000_000_000
NARROW = {"id": "long", "name": "string"}
WIDE = {**NARROW, "at": {"type": "long", "logicalType": "timestamp-millis"}}
_numbers = itertools.count()


def schema(fields: dict[str, object]) -> str:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "V", "fields": listed})


def some(base: int, end: int) -> list[Record]:
    return [
        Record(
            key=b"k%d" % (number % 7),
            value=b'{"id":%d,"name":"n%d","at":%d}' % (number, number % 5, SECOND + number),
            timestamp=TimestampMs(SECOND + number),
            headers=((b"h", b"%d" % number),),
            tags=(b"t%d" % (number % 3),),
        )
        for number in range(base, end)
    ]


def make(
    blobs: Blobs,
    partition: int,
    base: int,
    end: int,
    *,
    fields: dict[str, object] | None = None,
    topic: str = "orders",
    topic_id: TopicId = TOPIC_ID,
    final: bool = True,
    aborted: Sequence[AbortedTxn] = (),
    batch: bytes | None = None,
) -> TierFile:
    """Store one, of records whose values are made of their offsets."""
    value_format, text = ("json", schema(fields)) if fields else ("none", "")
    layout = FileLayout(
        partition=partition, aborted=aborted, values=value_columns(value_format, text)
    )
    sink = io.BytesIO()
    data = batch or encode_batch(some(base, end), now_ms=1, base_offset=base)
    summary = write_file([data], sink, layout)
    folder = keys.topic_folder(topic, topic_id)
    token = keys.new_token(OWNER)
    key = keys.data_key(folder, partition, Offset(base), Offset(end), token)
    blobs.write(key, sink.getvalue())
    return TierFile(
        shard=shard_name(topic_id, partition),
        base_offset=Offset(base),
        end_offset=Offset(end),
        final=final,
        parquet=TierObject(key, summary.size_bytes, summary.crc),
        parquet_end=ParquetEnd(*summary.footer),
        rows=summary.rows,
        batches=summary.batches,
        min_timestamp=TimestampMs(summary.min_timestamp),
        max_timestamp=TimestampMs(summary.max_timestamp),
        unparsed=summary.unparsed,
        misfits=summary.misfits,
        columns=columns_text(columns_of(declared(value_format, text))),
    )


def wanted(
    files: Sequence[TierFile],
    *,
    topic: str = "orders",
    topic_id: TopicId = TOPIC_ID,
    columns: str | None = None,
) -> WantedTable:
    return WantedTable(
        name=topic,
        topic_id=topic_id,
        folder=keys.topic_folder(topic, topic_id),
        columns=table_columns(files) if columns is None else columns,
        files=files,
        revision=next(_numbers),
    )
