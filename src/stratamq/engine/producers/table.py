"""All producers of one shard, and the changes that one commit brings to them.

The table follows the log: a draft is made while batches get their places and becomes part of the
table when they are stored. What is not stored leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable

from stratamq.engine.producers.rules import (
    Producer,
    StoredBatch,
    check_batch,
    check_marker,
    repeated,
    with_batch,
    with_marker,
)
from stratamq.engine.producers.transactions import Begun, Ended, Transactions
from stratamq.model.errors import CapacityExceeded, InvalidInput
from stratamq.model.transaction import ProducerStateEntry
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import BatchHeader, Buffer, ControlType
from stratamq.wire.kafka.records.control import EndMark, read_mark
from stratamq.wire.kafka.records.layout import CONTROL_BIT

NO_LIMIT = (1 << 63) - 1
"""What is in the log is followed, whatever the limit was when it was written."""


class ProducerTable:
    """Changed by the shard's writer alone; others may look at any time."""

    __slots__ = ("_known", "transactions")

    def __init__(
        self, producers: Iterable[Producer] = (), transactions: Transactions | None = None
    ) -> None:
        self._known = {producer.producer_id: producer for producer in producers}
        """The one heard of longest ago comes first."""
        self.transactions = Transactions() if transactions is None else transactions

    def __len__(self) -> int:
        return len(self._known)

    def is_empty(self) -> bool:
        """Nobody wrote whom anybody has to remember."""
        return not (self._known or self.transactions.unstable or self.transactions.aborted)

    def producers(self) -> tuple[Producer, ...]:
        return tuple(self._known.values())

    def states(self) -> list[ProducerStateEntry]:
        return [producer.state() for producer in self.producers()]

    def get(self, producer_id: int) -> Producer | None:
        return self._known.get(producer_id)

    def put(self, producer: Producer) -> None:
        self._known.pop(producer.producer_id, None)
        self._known[producer.producer_id] = producer

    def copy(self) -> ProducerTable:
        """As it is now, for a thread that looks at it while the writer goes on."""
        return ProducerTable(self.producers(), self.transactions.copy())

    def last_batches(self) -> frozenset[Offset]:
        """Where the newest batch of each producer ends: what tells its sequence."""
        return frozenset(one.batches[-1].last_offset for one in self.producers() if one.batches)

    def below(self, offset: Offset) -> ProducerTable:
        """What is known of those who wrote nothing from `offset` on, and of what was aborted before
        it."""
        known = [
            one for one in self.producers() if one.batches and one.batches[-1].last_offset < offset
        ]
        return ProducerTable(known, self.transactions.below(offset))

    def expire(self, now_ms: TimestampMs, expiration_ms: int) -> None:
        """Forget those who were silent that long. One with a transaction under way stays: readers
        wait for its end. One that was read out of the log is heard of now: nobody knows when it
        wrote."""
        for producer in self.producers():
            if producer.seen_ms < 0:
                self.put(producer._replace(seen_ms=now_ms))
            elif now_ms - producer.seen_ms < expiration_ms:
                break
            elif producer.transaction_start is None:
                del self._known[producer.producer_id]

    def shrink(self, producers_max: int) -> None:
        """Forget those heard of longest ago, until there are no more than that."""
        idle = (one for one in self.producers() if one.transaction_start is None)
        for _, producer in zip(range(len(self) - producers_max), idle, strict=False):
            del self._known[producer.producer_id]


class Draft:
    """What the table will be once the batches of a commit are stored."""

    __slots__ = ("_aborted_max", "_changed", "_events", "_now_ms", "_table")

    def __init__(
        self, table: ProducerTable, now_ms: TimestampMs, aborted_max: int = NO_LIMIT
    ) -> None:
        self._table, self._now_ms, self._aborted_max = table, now_ms, aborted_max
        self._changed: dict[int, Producer] = {}
        self._events: list[Begun | Ended] = []

    def _known(self, producer_id: int) -> Producer | None:
        return self._changed.get(producer_id) or self._table.get(producer_id)

    def admit(self, header: BatchHeader, data: Buffer) -> StoredBatch | None:
        """The batch that this one repeats; None when it is to be stored. Refusals are raised."""
        known = self._known(header.producer_id)
        if header.attributes & CONTROL_BIT:
            mark = read_mark(header, data)
            check_marker(known, header.producer_epoch, mark.coordinator_epoch)
            return None
        batch = repeated(known, header)
        if batch is None:
            check_batch(known, header)
            if header.is_transactional and (known is None or known.transaction_start is None):
                self._check_aborted()
        return batch

    def _check_aborted(self) -> None:
        """A transaction that begins may be aborted. Then readers have to know of it for as long as
        its records are there, so none begins where too many were aborted before."""
        aborted = len(self._table.transactions.aborted)
        if aborted >= self._aborted_max:
            raise CapacityExceeded(
                f"transactions.aborted.per.shard.max is {self._aborted_max}, and {aborted} "
                "aborted transactions still have records here"
            )

    def add(self, header: BatchHeader, data: Buffer) -> None:
        """A batch at its final place, from a producer or a leader."""
        known = self._known(header.producer_id)
        if header.attributes & CONTROL_BIT:
            self._end(known, header, data)
            return
        after = with_batch(known, header, self._now_ms)
        self._changed[header.producer_id] = after
        if after.transaction_start is not None and (
            known is None or known.transaction_start is None
        ):
            self._events.append(Begun(header.producer_id, after.transaction_start))

    def _end(self, known: Producer | None, header: BatchHeader, data: Buffer) -> None:
        mark = _mark(header, data)
        if mark.kind is ControlType.UNKNOWN:
            return
        after = with_marker(known, header, mark.coordinator_epoch, self._now_ms)
        self._changed[header.producer_id] = after
        if known is not None and known.transaction_start is not None:
            aborted = mark.kind is ControlType.ABORT
            self._events.append(Ended(header.producer_id, header.base_offset, aborted))

    def commit(self, committed: Offset) -> None:
        """The batches are stored; those below `committed` are visible to readers."""
        if self._events:
            self._table.transactions.apply(self._events, committed)
        for producer in self._changed.values():
            self._table.put(producer)


def _mark(header: BatchHeader, data: Buffer) -> EndMark:
    try:
        return read_mark(header, data)
    except InvalidInput:
        return EndMark(ControlType.UNKNOWN, -1)  # stored once; readers will say what is wrong
