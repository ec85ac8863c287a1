"""One call, several partitions: which partition takes which records, and how the answers are put
together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from stratamq.engine.contract import ReadLimit
from stratamq.engine.reads import record_bytes
from stratamq.model.errors import ShardNotFound, StrataError
from stratamq.model.record import Record
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import Offset, ShardName
from stratamq.wire.kafka.partitioner import partition_for_key

Shares = Mapping[int, Sequence[int]]
"""For each partition, the indexes of the records that go to it."""


class Placed(NamedTuple):
    """Where a record landed."""

    partition: int
    offset: Offset


class FoundRecord(NamedTuple):
    """A record and the partition it was found in."""

    partition: int
    record: Record


class PartialWrite(StrataError):
    """Some records of a call were stored and others were not.

    `placed` has an entry for each record that was tried, in order: where it is stored, or None.
    `errors` says why, by partition; None stands for a batch that failed as a whole.
    """

    def __init__(
        self, placed: Sequence[Placed | None], errors: Mapping[int | None, Exception]
    ) -> None:
        stored = sum(1 for one in placed if one is not None)
        why = "; ".join(
            f"{error}" if number is None else f"partition {number}: {error}"
            for number, error in errors.items()
        )
        super().__init__(f"{stored} of {len(placed)} records were stored ({why})")
        self.placed, self.errors = tuple(placed), dict(errors)


def shard_of(topic: Topic, partition: int) -> ShardName:
    if not 0 <= partition < topic.partitions:
        raise ShardNotFound(
            f"topic {topic.name!r} has no partition {partition}, only 0..{topic.partitions - 1}"
        )
    return shard_name(topic.topic_id, partition)


def partitions_of(topic: Topic, partition: int | None) -> Sequence[int]:
    return range(topic.partitions) if partition is None else [partition]


def share_out(records: Sequence[Record], partitions: int, turn: int) -> Shares:
    """Records with a key go where its hash says, those without one all to partition `turn`."""
    shares: dict[int, list[int]] = {}
    for index, record in enumerate(records):
        number = turn if record.key is None else partition_for_key(record.key, partitions)
        shares.setdefault(number, []).append(index)
    return shares


async def gathered(
    partitions: Sequence[int], read: Callable[[int], Awaitable[list[Record]]]
) -> list[FoundRecord]:
    """What the partitions give, one after the other."""
    answers = await asyncio.gather(*(read(number) for number in partitions))
    return [
        FoundRecord(number, record)
        for number, records in zip(partitions, answers, strict=True)
        for record in records
    ]


def cut(found: list[FoundRecord], limit: ReadLimit) -> list[FoundRecord]:
    """Each partition is within the limit; together they must be, too. The first record always
    comes."""
    size = 0
    for count, (_, record) in enumerate(found):
        size += record_bytes(record)
        if count == limit.records_max or (size > limit.bytes_max and count):
            return found[:count]
    return found


def put_together(
    count: int,
    shares: Shares,
    outcomes: Sequence[range | BaseException],
) -> list[Placed]:
    placed: list[Placed | None] = [None] * count
    errors: dict[int | None, Exception] = {}
    for (number, share), outcome in zip(shares.items(), outcomes, strict=True):
        if isinstance(outcome, Exception):
            errors[number] = outcome
            continue
        if isinstance(outcome, BaseException):
            raise outcome
        for index, offset in zip(share, outcome, strict=True):
            placed[index] = Placed(number, Offset(offset))
    if not errors:
        return [one for one in placed if one is not None]
    first = next(iter(errors.values()))
    if len(errors) == len(shares):
        raise first
    raise PartialWrite(placed, errors) from first
