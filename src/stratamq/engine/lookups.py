"""Finding records by key and by tag. Pure, over any ShardStore.

An index only says where a record may be: it holds hashes. Every candidate is read and compared, so
a collision or a stale entry costs a read and never gives a wrong answer. Without an index the log
is scanned, with the same answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile

from stratamq.engine.contract import ReadLimit
from stratamq.engine.reads import Collector
from stratamq.engine.view import View
from stratamq.model.errors import CorruptRecord
from stratamq.model.record import Record
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import decode_batch, decode_some

Matches = Callable[[Record], bool]
WINDOW_MIN = 16


def by_key(view: View, key: bytes, offset: Offset, limit: ReadLimit, history: bool) -> list[Record]:
    """Newest first: the newest alone, or with `history` all of them."""
    if not history:
        limit = limit._replace(records_max=min(1, limit.records_max))
    return _collect(_newest_first(view, key, offset, limit.records_max), limit)


def by_tag(view: View, tag: bytes, offset: Offset, limit: ReadLimit) -> list[Record]:
    """Oldest first."""
    floor = max(offset, view.start)
    candidates = view.store.offsets_by_tag(tag, floor, view.end)
    if candidates is None:
        return _collect(_scan(view, floor, lambda record: tag in record.tags), limit)
    found = _verified(view, candidates, lambda record: tag in record.tags, limit.records_max)
    return _collect(found, limit)


def offsets_of_key(view: View, key: bytes) -> Iterator[Offset]:
    """Where every visible record of the key is."""
    candidates = view.store.offsets_by_key(key, view.end)
    if candidates is None:
        found = _scan(view, view.start, lambda record: record.key == key)
    else:
        recent = takewhile(lambda candidate: candidate >= view.start, candidates)
        found = _verified(view, recent, lambda record: record.key == key, WINDOW_MIN)
    return (record.offset for records in found for record in records)


def _newest_first(view: View, key: bytes, offset: Offset, wanted: int) -> Iterator[list[Record]]:
    floor = max(offset, view.start)
    candidates = view.store.offsets_by_key(key, view.end)
    if candidates is not None:
        recent = takewhile(lambda candidate: candidate >= floor, candidates)
        return _verified(view, recent, lambda record: record.key == key, wanted)
    # Without an index the scan runs forward; of what it finds only the newest can be wanted.
    newest: deque[Record] = deque(maxlen=max(wanted, 0))
    for records in _scan(view, floor, lambda record: record.key == key):
        newest.extend(records)
    return iter([list(reversed(newest))])


def _collect(found: Iterable[list[Record]], limit: ReadLimit) -> list[Record]:
    """Damage ends the answer; when it would be empty, it is the answer."""
    collector = Collector(limit)
    try:
        for records in found:
            collector.take(records)
            if collector.full:
                break
    except CorruptRecord:
        if not collector.records:
            raise
    return collector.records


def _verified(
    view: View, candidates: Iterator[Offset], matches: Matches, wanted: int
) -> Iterator[list[Record]]:
    """The candidates that really match and may be seen, in the order given.

    Neighbours in one batch are decoded together, but not many more than are wanted.
    """
    window, candidate = wanted, None
    while (candidate := next(candidates, None) if candidate is None else candidate) is not None:
        found = view.batch_at(candidate)
        if found is None or found[0].is_control:
            candidate = None
            continue
        header, data = found
        run, candidate = _run(candidates, candidate, header.base_offset, header.last_offset, window)
        records = decode_some(header, data, run, view.decompressed_max)
        if run[0] > run[-1]:
            records.reverse()
        yield view.visible([record for record in records if matches(record)], view.start)
        window = max(window * 2, WINDOW_MIN)


def _run(
    candidates: Iterator[Offset], first: Offset, base: Offset, last: Offset, window: int
) -> tuple[list[Offset], Offset | None]:
    """Candidates that lie in one batch, and the one after them where it had to be looked at: the
    next may be on object storage, and nobody should ask there for nothing."""
    run = [first]
    while len(run) < window:
        candidate = next(candidates, None)
        if candidate is None or not base <= candidate <= last:
            return run, candidate
        run.append(candidate)
    return run, None


def _scan(view: View, floor: Offset, matches: Matches) -> Iterator[list[Record]]:
    """Matching records from `floor` on, oldest first, found the long way."""
    for header, data in view.batches(floor):
        records = decode_batch(header, data, view.decompressed_max)
        yield view.visible([record for record in records if matches(record)], floor)
