"""The journal of a streaming sink: a topic of the query's own that says which epoch counts.

Contract:

- `append` writes a note in a transaction of the caller's. The note counts, all of it or nothing,
  from the moment that transaction is committed.
- `read` returns the newest note that counts. Undecided while a transaction is open that may add
  one.
- A note is a run of records of at most RECORD_BYTES_MAX each, however many tasks an epoch has and
  however often they were tried. It names no more than TOPICS_MAX topics: those written to last.
- The topic holds the newest note and about TRIM_AFTER older records: `trim` deletes those before.
- The topic has no retention. A query may pause for as long as it likes, and the topics it writes to
  may be deleted; the note stays until an operator deletes the journal.

Format, a JSON object per record:

    {"epoch": 7, "tasks": "0-57,59.1"}              tasks 0 to 57, and of 59 the second attempt
    {"epoch": 7, "topics": {"totals": "8f3c..."}}   ids of the topics written to, by name
    {"epoch": 7, "ended": true}                     all transactions of the tasks are committed

Earlier versions stored a note as the metadata of a group's offset (at most 4096 bytes, deleted with
the group's offsets or with the target topic): `read_group` still finds those.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stratamq.client import Client, TopicPartition, Transaction, Undecided, visible_batches
from stratamq.model.errors import AlreadyExists, StrataError, TopicNotFound
from stratamq.model.record import Record
from stratamq.spark.failures import Losses, warn_once
from stratamq.spark.lookups import bounds
from stratamq.spark.options import FETCH_BYTES
from stratamq.spark.planning import OffsetRange
from stratamq.spark.reading import Fetching, fetch_all
from stratamq.wire.kafka.records import decode_batch, encode_batch

RECORD_BYTES_MAX = 64 << 10
FRAME_BYTES = 128
"""What a record has in addition to the text of its tasks or topics, and a little more."""

TOPICS_MAX = 1000
TRIM_AFTER = 200
NAME_CHARS_MAX = 249
SUFFIX = "-epochs"
CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(1 << 20),  # a file cannot go before all of it is trimmed
}


@dataclass(frozen=True, slots=True)
class Note:
    """An epoch that counts: which attempt of each task wrote it, and to which topics."""

    epoch: int
    attempts: Mapping[int, int]
    topics: Mapping[str, bytes] = field(default_factory=dict)
    """Of this epoch and of those before it."""
    ended: bool = False


class Journal(NamedTuple):
    """What is found in it, and at which offset it begins; None: there is no such topic yet."""

    note: Note | None
    start: int | None


def place_of(query: str) -> TopicPartition:
    name = re.sub(r"[^a-zA-Z0-9._-]", "_", query)  # a prefix may have what a topic may not
    return TopicPartition(name[-(NAME_CHARS_MAX - len(SUFFIX)) :] + SUFFIX, 0)


# -- format ----------------------------------------------------------------------------------------


def encode(note: Note) -> list[bytes]:
    topics = [f'"{name}": "{topic_id.hex()}"' for name, topic_id in note.topics.items()]
    tasks = list(_joined(_runs(note.attempts))) or [""]
    found = [f'{{"epoch": {note.epoch}, "tasks": "{text}"}}' for text in tasks]
    found += [f'{{"epoch": {note.epoch}, "topics": {{{text}}}}}' for text in _joined(topics)]
    return [text.encode() for text in found]


def decode(records: Iterable[bytes]) -> Note | None:
    """The newest of the notes. ValueError, KeyError, TypeError or AttributeError if it is none."""
    note: Note | None = None
    for record in records:
        said = json.loads(record)
        if note is None or said["epoch"] > note.epoch:
            note = Note(said["epoch"], {})
        if said["epoch"] < note.epoch:
            continue  # a driver that another has replaced says late that it had ended its epoch
        ids = {name: bytes.fromhex(text) for name, text in said.get("topics", {}).items()}
        note = replace(
            note,
            attempts={**note.attempts, **attempts_of(said.get("tasks", ""))},
            topics={**note.topics, **ids},
            ended=note.ended or "ended" in said,
        )
    return note


def attempts_of(tasks: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for run in filter(None, tasks.split(",")):
        if "." in run:
            task, _, attempt = run.partition(".")
            found[int(task)] = int(attempt)
        else:
            first, _, last = run.partition("-")
            found.update(dict.fromkeys(range(int(first), int(last or first) + 1), 0))
    return found


def _runs(attempts: Mapping[int, int]) -> Iterator[str]:
    """`0-57` for tasks of which the first attempts count, `59.1` for others."""
    first: int | None = None
    for task in sorted(attempts):
        if attempts[task]:
            yield f"{task}.{attempts[task]}"
            continue
        if first is None:
            first = task
        if attempts.get(task + 1) != 0:
            yield str(first) if first == task else f"{first}-{task}"
            first = None


def _joined(items: Iterable[str]) -> Iterator[str]:
    """Items with commas between them, in texts that fit a record."""
    text = ""
    for item in items:
        if text and len(text) + len(item) + 1 > RECORD_BYTES_MAX - FRAME_BYTES:
            yield text
            text = ""
        text = f"{text},{item}" if text else item
    if text:
        yield text


# -- reading ---------------------------------------------------------------------------------------


async def read(client: Client, query: str) -> Journal:
    place = place_of(query)
    try:
        starts, ends = await bounds(client, [place], committed=False)
    except TopicNotFound:
        return Journal(None, None)
    wanted = OffsetRange(place=place, start=starts[place], stop=ends[place])
    asked = Fetching(
        wanted=wanted, bytes_max=FETCH_BYTES, committed=True, losses=Losses(fatal=False)
    )  # what is gone meanwhile was trimmed: a newer note is there
    values: list[bytes] = []
    async for _, fetched in fetch_all(client, asked):
        if fetched.last_stable < fetched.high_watermark:
            raise Undecided(f"{place.topic}: a transaction that decides an epoch is under way")
        for header, batch in visible_batches(fetched.data, fetched.aborted):
            values += [record.value or b"" for record in decode_batch(header, batch)]
    try:
        return Journal(decode(values), wanted.start)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StrataError(f"{place.topic} holds records that are no notes of epochs") from None


async def read_group(client: Client, query: str) -> Note | None:
    """The note of an earlier version, the epoch as an offset of the group."""
    found = (await client.group_offsets(query)).values()
    newest = max(found, default=None)
    return None if newest is None else Note(newest.offset, attempts_of(newest.note))


# -- writing ---------------------------------------------------------------------------------------


async def create(client: Client, query: str) -> None:
    with contextlib.suppress(AlreadyExists):
        await client.create_topic(place_of(query).topic, 1, configs=CONFIGS)


async def append(transaction: Transaction, query: str, note: Note) -> int:
    """The offset of its first record."""
    place = place_of(query)
    offsets = [await transaction.send(place, [Record(value=one)]) for one in encode(note)]
    return offsets[0]


async def append_ended(client: Client, query: str, epoch: int) -> None:
    """Record outside of any transaction: it is true for every writer, and may be recorded twice."""
    value = json.dumps({"epoch": epoch, "ended": True}).encode()
    batch = encode_batch([Record(value=value)], now_ms=time.time_ns() // 1_000_000)
    await client.produce(place_of(query), batch)


async def trim(client: Client, query: str, start: int, note_offset: int) -> None:
    """Delete all before the note, once that is much. Safe to leave out: reading takes longer."""
    if note_offset - start < TRIM_AFTER:
        return
    try:
        await client.delete_records(place_of(query), note_offset)
    except StrataError as error:
        warn_once(f"the journal of {query} keeps old notes: {error}")
