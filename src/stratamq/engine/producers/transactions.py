"""The transactions of one shard: which are not decided yet, which were aborted.

A transaction is decided for readers when the mark that ends it is committed. Until then nobody who
reads committed data only gets past its first record: that is the last stable offset.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from stratamq.model.transaction import AbortedTxn
from stratamq.model.types import Offset


class Begun(NamedTuple):
    producer_id: int
    first_offset: Offset


class Ended(NamedTuple):
    """The mark at `marker_offset` ended it."""

    producer_id: int
    marker_offset: Offset
    aborted: bool


class Unstable(NamedTuple):
    """A transaction that readers wait for: no mark yet, or none that is committed."""

    first_offset: Offset
    producer_id: int
    marker_offset: Offset | None = None

    def holds(self, committed: Offset) -> bool:
        return self.marker_offset is None or self.marker_offset >= committed


class AbortedRow(NamedTuple):
    """`last_stable` is what was undecided when this one was aborted: every transaction that ends
    later begins there or behind."""

    last_offset: Offset
    first_offset: Offset
    producer_id: int
    last_stable: Offset


class AbortedIndex:
    """Aborted transactions in the order of their marks, 32 bytes each. Grows while others look: the
    column they search by is written last."""

    __slots__ = ("_firsts", "_lasts", "_producers", "_stables")

    def __init__(self, rows: Iterable[AbortedRow] = ()) -> None:
        self._lasts, self._firsts = array("q"), array("q")
        self._producers, self._stables = array("q"), array("q")
        for row in rows:
            self.add(row)

    def __len__(self) -> int:
        return len(self._lasts)

    def __iter__(self) -> Iterator[AbortedRow]:
        return (self._row(number) for number in range(len(self)))

    def _row(self, number: int) -> AbortedRow:
        return AbortedRow(
            Offset(self._lasts[number]),
            Offset(self._firsts[number]),
            self._producers[number],
            Offset(self._stables[number]),
        )

    def add(self, row: AbortedRow) -> None:
        self._firsts.append(row.first_offset)
        self._producers.append(row.producer_id)
        self._stables.append(row.last_stable)
        self._lasts.append(row.last_offset)

    def between(self, start: Offset, end: Offset) -> list[AbortedTxn]:
        """Those that may have records in `start..end - 1`."""
        found = []
        for number in range(bisect_left(self._lasts, start), len(self)):
            last, first, producer_id, last_stable = self._row(number)
            if first < end:
                found.append(AbortedTxn(producer_id, first, last))
            if last_stable >= end:
                break
        return found

    def copy(self) -> AbortedIndex:
        other, count = AbortedIndex(), len(self)
        other._lasts, other._firsts = self._lasts[:count], self._firsts[:count]
        other._producers, other._stables = self._producers[:count], self._stables[:count]
        return other

    def starting_at(self, start: Offset) -> AbortedIndex:
        """Without those that lie wholly below `start`."""
        if not self._lasts or self._lasts[0] >= start:
            return self
        return AbortedIndex(row for row in self if row.last_offset >= start)


class Transactions:
    """Changed by the shard's writer alone; both fields are replaced, or only grow, so that others
    may look at any time."""

    __slots__ = ("aborted", "unstable")

    def __init__(
        self, unstable: Sequence[Unstable] = (), aborted: AbortedIndex | None = None
    ) -> None:
        self.unstable = tuple(unstable)
        """By first offset: transactions begin in the order of the log."""
        self.aborted = AbortedIndex() if aborted is None else aborted

    def copy(self) -> Transactions:
        return Transactions(self.unstable, self.aborted.copy())

    def last_stable(self, committed: Offset) -> Offset:
        for transaction in self.unstable:
            if transaction.holds(committed):
                return min(transaction.first_offset, committed)
        return committed

    def apply(self, events: Iterable[Begun | Ended], committed: Offset) -> None:
        """What was just stored. Forgets what readers do not wait for any more."""
        pending = [known for known in self.unstable if known.holds(committed)]
        for event in events:
            if isinstance(event, Begun):
                pending.append(Unstable(event.first_offset, event.producer_id))
            else:
                self._end(pending, event)
        self.unstable = tuple(pending)

    def _end(self, pending: list[Unstable], event: Ended) -> None:
        producer_id, marker, aborted = event
        for number, known in enumerate(pending):
            if known.producer_id == producer_id and known.marker_offset is None:
                pending[number] = known._replace(marker_offset=marker)
                break
        else:
            return
        if aborted:
            undecided = (one.first_offset for one in pending if one.marker_offset is None)
            stable = next(undecided, Offset(marker + 1))
            self.aborted.add(AbortedRow(marker, known.first_offset, producer_id, stable))

    def below(self, offset: Offset) -> Transactions:
        """Those that were over before it."""
        return Transactions(
            (), AbortedIndex(row for row in self.aborted if row.last_offset < offset)
        )

    def start_at(self, start: Offset) -> None:
        """The log begins there now."""
        self.aborted = self.aborted.starting_at(start)
