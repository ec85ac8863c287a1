"""Exactly once per epoch: which transactions belong to it, and when it is decided.

Each task writes one transaction and leaves it open. The driver decides, by a small transaction of
its own that puts a note into the query's journal: the epoch, and which attempts of the tasks count.
The end of that transaction is the moment from which the epoch counts. Then the driver ends those of
the tasks.

    what happens                             what is found, and done about it
    a task fails or runs twice               its attempts are transactions apart; one is ended
    the driver dies before it has decided    no note: the epoch is written again, old ids fenced
    the driver dies after that               the note: nothing is written, the rest is ended
    ... and comes back too late for that     transactions timed out: the query says so and stops
    two drivers run the same query           the later fences the one before
    a topic is deleted and made again        its id is not that of the note: the query says so and
                                             stops, or goes on with `failOnDataLoss=false`
    ... while an epoch is written to it      nothing of the epoch counts: the query stops

See docs/decisions/0012-an-epoch-is-decided-once.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stratamq.client import Client, Handle
from stratamq.model.errors import NotFound, ProducerRefused, StrataError, TopicNotFound
from stratamq.spark.failures import Losses, recreated
from stratamq.spark.sink import journal
from stratamq.spark.sink.journal import TOPICS_MAX, Journal, Note

OPEN = "Ongoing"
AT_REST = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
COMMITTED = ("PrepareCommit", "CompleteCommit")


class Part(NamedTuple):
    """One task's transaction, as the driver learns of it."""

    handle: Handle
    task: int
    attempt: int
    topics: Mapping[str, bytes]
    """Those it wrote to, with the ids they had when it began."""


class LostEpoch(StrataError):
    """An epoch that counts, and a transaction of it that was aborted."""

    def __init__(self, query: str, epoch: int, name: str, what: str = "timed out") -> None:
        super().__init__(
            f"epoch {epoch} of {query} was decided, but its transaction {name!r} {what} before "
            "the query was started again: its rows are missing"
        )


def task_id(query: str, task: int, attempt: int) -> str:
    return f"{query}-{task}-{attempt}"


def driver_id(query: str) -> str:
    return f"{query}-driver"


# -- what tasks ask --------------------------------------------------------------------------------


async def is_decided(client: Client, query: str, epoch: int) -> bool:
    """Whether the epoch counts already, so that nothing may be written for it."""
    if await _is_recording(client, query):
        # A driver died while it recorded the epoch, or it lives, and this task should not.
        await client.fence(driver_id(query))
    note = (await _journal(client, query)).note
    return note is not None and note.epoch >= epoch


async def _is_recording(client: Client, query: str) -> bool:
    try:
        return (await client.describe_transaction(driver_id(query))).state not in AT_REST
    except NotFound:
        return False  # no epoch was ever decided, or not for a long time


async def _journal(client: Client, query: str) -> Journal:
    found = await journal.read(client, query)
    if found.note is None:
        return found._replace(note=await journal.read_group(client, query))
    return found


# -- what the driver does --------------------------------------------------------------------------


async def decide(
    client: Client, query: str, epoch: int, parts: Sequence[Part], losses: Losses
) -> None:
    """Decide an epoch: all its parts count, or none does. Safe to repeat, from any driver."""
    recording = await client.begin(driver_id(query))
    note, start = await _journal(client, query)  # no other writer can record anything now
    if note is not None and note.epoch >= epoch:
        await abort(client, parts)
        await finish(client, query, epoch, losses)
        return
    topics = await check_topics(client, parts)
    before = {} if note is None else note.topics
    for error in recreated(before, topics):
        losses.accept(error, "goes on with the new one, without what was written before")
    latest = {**{name: before[name] for name in before if name not in topics}, **topics}
    latest = dict(list(latest.items())[-TOPICS_MAX:])
    if start is None:
        await journal.create(client, query)
    attempts = {part.task: part.attempt for part in parts}
    offset = await journal.append(recording, query, Note(epoch, attempts, latest))
    await recording.end(commit=True)
    await _end(client, query, epoch, parts)
    await journal.append_ended(client, query, epoch)
    await journal.trim(client, query, start or 0, offset)


async def check_topics(client: Client, parts: Sequence[Part]) -> dict[str, bytes]:
    """The ids of all topics that the parts wrote to. TopicRecreated if one of them is another by
    now, or was so for some of the parts: what was written before is gone then."""
    names = sorted({name for part in parts for name in part.topics})
    now = {name: one.topic_id for name, one in (await client.describe_topics(names)).items()}
    for part in parts:
        for error in recreated(part.topics, now):
            error.args = (f"{error}, while a task wrote to it: nothing of the epoch counts",)
            raise error
    return {name: now[name] for name in names}


async def finish(client: Client, query: str, epoch: int, losses: Losses) -> None:
    """End what a driver before this one decided and left open."""
    note = (await _journal(client, query)).note
    if note is None or note.epoch != epoch:
        return
    for error in recreated(note.topics, await _ids(client, note.topics)):
        losses.accept(error, "goes on with the new one, without what was written before")
    if note.ended:
        return
    names = [task_id(query, task, attempt) for task, attempt in note.attempts.items()]
    await asyncio.gather(*(_finish_one(client, query, epoch, name) for name in names))
    if note.topics:  # those of earlier versions have none, and no journal
        await journal.append_ended(client, query, epoch)


async def _ids(client: Client, names: Mapping[str, bytes]) -> dict[str, bytes]:
    """Of those that are there."""
    found: dict[str, bytes] = {}
    for name in names:
        try:
            found[name] = (await client.describe_topics([name]))[name].topic_id
        except TopicNotFound:
            continue  # deleted, with all that was written to it
    return found


async def _finish_one(client: Client, query: str, epoch: int, name: str) -> None:
    try:
        handle, state = await client.describe_transaction(name)
    except NotFound:
        raise LostEpoch(query, epoch, name, "was forgotten by the nodes") from None
    if state == OPEN:
        await client.end(handle, commit=True)
    elif state not in COMMITTED:
        raise LostEpoch(query, epoch, name)


async def _end(client: Client, query: str, epoch: int, parts: Sequence[Part]) -> None:
    async def one(part: Part) -> None:
        try:
            await client.end(part.handle, commit=True)
        except ProducerRefused:
            raise LostEpoch(query, epoch, part.handle.transactional_id) from None

    await asyncio.gather(*(one(part) for part in parts))


async def commit_all(client: Client, parts: Sequence[Part]) -> None:
    """Decide a batch, which is never repeated under the same name: no note of it is stored."""
    await check_topics(client, parts)
    await asyncio.gather(*(client.end(part.handle, commit=True) for part in parts))


async def abort(client: Client, parts: Sequence[Part]) -> None:
    """Abort the parts as far as possible: what stays open times out."""
    calls = (client.end(part.handle, commit=False) for part in parts)
    await asyncio.gather(*calls, return_exceptions=True)


async def fence_losers(client: Client, query: str, parts: Sequence[Part]) -> None:
    """Attempts before the one that counts may have died with their transactions open."""
    names = [task_id(query, part.task, i) for part in parts for i in range(part.attempt)]
    await asyncio.gather(*(client.fence(name) for name in names), return_exceptions=True)
