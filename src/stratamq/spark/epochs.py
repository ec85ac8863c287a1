"""Exactly once per epoch: which transactions belong to it, and when it is decided.

Each task writes one transaction and leaves it open. The driver decides, by a small transaction of
its own that records the epoch: an offset that the query's group commits, with a note of the tasks'
transactions. The end of that one is the moment from which the epoch counts. Then the driver ends
the others.

    what happens                             what is found, and done about it
    a task fails or runs twice               its attempts are transactions apart; one is ended
    the driver dies before it has decided    no record: the epoch is written anew, old ids fenced
    the driver dies after that               the record: nothing is written, the rest is ended
    ... and comes back too late for that     transactions timed out: the query says so and stops
    two drivers run the same query           the later fences the one before

See docs/decisions/0012-an-epoch-is-decided-once.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from stratamq.client import Client, Handle, TopicPartition
from stratamq.model.errors import NotFound, ProducerRefused, StrataError

OPEN = "Ongoing"
AT_REST = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
COMMITTED = ("PrepareCommit", "CompleteCommit")


class Part(NamedTuple):
    """One task's transaction, as the driver learns of it."""

    handle: Handle
    task: int
    attempt: int
    place: TopicPartition
    """One of those it wrote to: the epoch is recorded as an offset of the first part's."""


class Decided(NamedTuple):
    epoch: int
    note: str


class LostEpoch(StrataError):
    """An epoch that counts, and a transaction of it that was aborted."""

    def __init__(self, query: str, epoch: int, name: str) -> None:
        super().__init__(
            f"epoch {epoch} of {query} was decided, but its transaction {name!r} timed out before "
            "the query was started again: its rows are missing"
        )


def task_id(query: str, task: int, attempt: int) -> str:
    return f"{query}-{task}-{attempt}"


def driver_id(query: str) -> str:
    return f"{query}-driver"


# -- notes -----------------------------------------------------------------------------------------


def note_of(parts: Iterable[Part]) -> str:
    """Tasks with their attempts, short: `0-57,59.1` is 0 to 57, and of 59 the second attempt."""
    runs: list[tuple[int, int, int]] = []
    for part in sorted(parts, key=lambda part: part.task):
        task, attempt = part.task, part.attempt
        if runs and runs[-1][1:] == (task - 1, 0) and not attempt:
            runs[-1] = (runs[-1][0], task, 0)
        else:
            runs.append((task, task, attempt))
    return ",".join(_run(*run) for run in runs)


def _run(first: int, last: int, attempt: int) -> str:
    if attempt:
        return f"{first}.{attempt}"
    return str(first) if first == last else f"{first}-{last}"


def noted(note: str) -> Iterator[tuple[int, int]]:
    """(task, attempt) of each."""
    for run in filter(None, note.split(",")):
        if "." in run:
            task, _, attempt = run.partition(".")
            yield int(task), int(attempt)
        else:
            first, _, last = run.partition("-")
            yield from ((task, 0) for task in range(int(first), int(last or first) + 1))


# -- what tasks ask --------------------------------------------------------------------------------


async def is_decided(client: Client, query: str, epoch: int) -> bool:
    """Whether the epoch counts already, so that nothing may be written for it."""
    if await _is_recording(client, query):
        # A driver died while it recorded the epoch, or it lives, and this task should not.
        await client.fence(driver_id(query))
    known = await _record(client, query)
    return known is not None and known.epoch >= epoch


async def _is_recording(client: Client, query: str) -> bool:
    try:
        return (await client.describe_transaction(driver_id(query))).state not in AT_REST
    except NotFound:
        return False  # no epoch was ever decided


async def _record(client: Client, query: str) -> Decided | None:
    offsets = await client.group_offsets(query)
    return max((Decided(one.offset, one.note) for one in offsets.values()), default=None)


# -- what the driver does --------------------------------------------------------------------------


async def decide(client: Client, query: str, epoch: int, parts: Sequence[Part]) -> None:
    """All parts count, or none does. Safe to repeat, from any driver."""
    recording = await client.begin(driver_id(query))
    known = await _record(client, query)  # nobody else can record anything now
    if known is None or known.epoch < epoch:
        place = min(parts, key=lambda part: part.task).place
        await recording.commit_offset(query, place, epoch, note_of(parts))
        await recording.end(commit=True)
        await _end(client, query, epoch, parts)
    else:
        await abort(client, parts)
        await finish(client, query, epoch)


async def finish(client: Client, query: str, epoch: int) -> None:
    """End what a driver before this one decided and left open."""
    known = await _record(client, query)
    if known is None or known.epoch != epoch:
        return
    names = [task_id(query, task, attempt) for task, attempt in noted(known.note)]
    await asyncio.gather(*(_finish_one(client, query, epoch, name) for name in names))


async def _finish_one(client: Client, query: str, epoch: int, name: str) -> None:
    handle, state = await client.describe_transaction(name)
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
    """Of a batch, which nobody repeats under the same name: no record of it is kept."""
    await asyncio.gather(*(client.end(part.handle, commit=True) for part in parts))


async def abort(client: Client, parts: Sequence[Part]) -> None:
    """As far as it can be done: what stays open times out."""
    calls = (client.end(part.handle, commit=False) for part in parts)
    await asyncio.gather(*calls, return_exceptions=True)


async def fence_losers(client: Client, query: str, parts: Sequence[Part]) -> None:
    """Attempts before the one that counts may have died with their transactions open."""
    names = [task_id(query, part.task, i) for part in parts for i in range(part.attempt)]
    await asyncio.gather(*(client.fence(name) for name in names), return_exceptions=True)
