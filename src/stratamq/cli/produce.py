"""`stratamq produce`: lines of standard input or a file, as records of a topic."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from stratamq.cli.command import Invocation, Report
from stratamq.cli.failing import UsageError
from stratamq.cli.formats import record_of_json, record_of_line, unescaped
from stratamq.cli.line_producer import LineInput, LineProducer, Send
from stratamq.cli.progress import ProgressLine
from stratamq.cli.specs import pairs
from stratamq.client import Client, TopicPartition
from stratamq.model.errors import TopicNotFound
from stratamq.model.record import Record
from stratamq.wire.kafka.records import Compression, encode_batch


class ProduceAcks(StrEnum):
    ALL = "all"
    LEADER = "1"


class CompressionName(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


TopicName = Annotated[str, typer.Argument(help="The topic.", metavar="TOPIC", show_default=False)]
InputFile = Annotated[
    Path | None,
    typer.Option("--file", help="Read this instead of standard input.", show_default=False),
]
KeySeparator = Annotated[
    str | None,
    typer.Option(
        "--key-separator",
        "-K",
        metavar="TEXT",
        help="Each line is a key, this, and a value; \\t is a tab.",
        show_default=False,
    ),
]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        "-H",
        metavar="NAME=VALUE",
        help="A header of each record; may be repeated.",
        show_default=False,
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", help="A tag of each record; may be repeated.", show_default=False),
]
Partition = Annotated[
    int | None,
    typer.Option(
        "--partition",
        "-p",
        min=0,
        help="Default: by the key, as Kafka's clients choose; without a key, any.",
        show_default=False,
    ),
]
JsonLines = Annotated[
    bool,
    typer.Option(
        "--json-lines", help="Each line is a record as `consume --format json` writes it."
    ),
]
AcksChoice = Annotated[ProduceAcks, typer.Option(help="all: idempotent, each line is stored once.")]
CompressionChoice = Annotated[CompressionName, typer.Option(help="Of batches.")]


async def produce(
    invocation: Invocation,
    topic: TopicName,
    file: InputFile = None,
    key_separator: KeySeparator = None,
    header: Headers = None,
    tag: Tags = None,
    partition: Partition = None,
    json_lines: JsonLines = False,
    acks: AcksChoice = ProduceAcks.ALL,
    compression: CompressionChoice = CompressionName.NONE,
) -> Report:
    """Store each line of standard input, or of a file, as a record."""
    if json_lines and (key_separator or header or tag):
        raise UsageError(
            "--json-lines has key, headers and tags in its lines: give no flags for them"
        )
    separator = unescaped(key_separator).encode() if key_separator else None
    headers = tuple((n.encode(), v.encode()) for n, v in pairs(header or (), "--header").items())
    tags = tuple(one.encode() for one in tag or ())

    def read(line: bytes) -> Record:
        if json_lines:
            return record_of_json(line)
        return record_of_line(line, separator, headers, tags)

    view = (await invocation.client.describe_topics([topic]))[topic]
    if partition is not None and partition >= len(view.partitions):
        raise TopicNotFound(f"{topic!r} has {len(view.partitions)} partitions, and no {partition}")
    send = await _sender(invocation.client, acks, Compression[compression.name])
    producer = LineProducer(topic, len(view.partitions), partition, send)
    with _opened(file) as stream:
        progress = ProgressLine(is_wanted=not stream.isatty())
        await producer.write(LineInput(stream), read, progress)
    return producer.report()


async def _sender(client: Client, acks: ProduceAcks, compression: Compression) -> Send:
    if acks is ProduceAcks.ALL:
        return (await client.sender(compression)).send

    async def send(place: TopicPartition, records: Sequence[Record]) -> int:
        now_ms = time.time_ns() // 1_000_000
        batch = encode_batch(records, now_ms=now_ms, compression=compression)
        return await client.produce(place, batch, acks=1)

    return send


def _opened(file: Path | None) -> AbstractContextManager[BinaryIO]:
    if file is None:
        return nullcontext(sys.stdin.buffer)
    try:
        return file.open("rb")
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror})") from None
