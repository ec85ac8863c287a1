"""What a request does to a transactional id: the id as it is and the request give the id as it
will be, or a refusal.

Pure: no clock, no disk. The caller stores the result before it answers.

Producers come in two kinds. Older ones keep their epoch from transaction to transaction; newer ones
(EndTxn 5 and later) get a new epoch with every end, so that nothing late of one transaction can
slip into the next. The epoch that the marks carry is the new one in both cases where there is one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from stratamq.broker.kafka.errors import Refused
from stratamq.meta.transactions import TransactionMeta
from stratamq.model.transaction import (
    AT_REST,
    DECIDED,
    EPOCH_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionEvent,
    TransactionState,
    after,
)
from stratamq.model.types import NO_TIMESTAMP, ShardName, TimestampMs
from stratamq.wire.kafka.protocol import ErrorCode

USED_UP = EPOCH_MAX - 1
"""At this epoch a producer needs another id. The one epoch left is for fencing it."""

GROUPS_MAX = 1000
"""Groups whose offsets one transaction may commit. Above: INVALID_REQUEST."""


class ProducerIdAndEpoch(NamedTuple):
    """The producer that a request says it comes from."""

    producer_id: int
    epoch: int


class Initialized(NamedTuple):
    """`is_ready`: the producer may begin. Else it has to ask again, after the transaction that was
    under way is aborted."""

    transaction: TransactionMeta
    is_ready: bool


# -- InitProducerId --------------------------------------------------------------------------------


def needs_new_id(old: TransactionMeta | None) -> bool:
    """Whether `initialize` may use the new producer id it is given."""
    return old is None or (old.state in AT_REST and old.producer_epoch >= USED_UP)


def create(
    transactional_id: str, producer_id: int, timeout_ms: int, now_ms: TimestampMs
) -> TransactionMeta:
    return TransactionMeta(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        update_ms=now_ms,
    )


def initialize(
    old: TransactionMeta,
    expected: ProducerIdAndEpoch | None,
    timeout_ms: int,
    new_id: int,
    now_ms: TimestampMs,
) -> Initialized:
    """A producer begins, or goes on after an error: then it says what it was (`expected`)."""
    if expected is not None and not (
        _is_now(old, expected) or _was_before(old, expected) or _is_next(old, expected)
    ):
        raise Refused(ErrorCode.PRODUCER_FENCED)
    if old.state in DECIDED:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if old.state is TransactionState.ONGOING:
        if expected is not None and not _is_now(old, expected):
            raise Refused(ErrorCode.PRODUCER_FENCED)  # an old request that comes twice
        return Initialized(fence(old, now_ms, by_itself=expected is not None), False)
    repeats = expected is not None and not _is_now(old, expected)
    if repeats and old.producer_epoch < EPOCH_MAX:
        return Initialized(old, True)  # what it asks for was done: the same answer
    return Initialized(_renewed(old, expected, timeout_ms, new_id, now_ms), True)


def _is_now(old: TransactionMeta, who: ProducerIdAndEpoch) -> bool:
    return who == (old.producer_id, old.producer_epoch)


def _was_before(old: TransactionMeta, who: ProducerIdAndEpoch) -> bool:
    """What it had before its last change of epoch, or of id."""
    if who.epoch == NO_PRODUCER_EPOCH or who.epoch != old.last_producer_epoch:
        return False
    if old.last_producer_id != NO_PRODUCER_ID:
        return who.producer_id == old.last_producer_id
    return who.producer_id == old.producer_id


def _is_next(old: TransactionMeta, who: ProducerIdAndEpoch) -> bool:
    """What it gets when the marks of its last epoch are written: it may know that before they are,
    and has to wait."""
    return old.next_producer_id != NO_PRODUCER_ID and who == (old.next_producer_id, 0)


def _renewed(
    old: TransactionMeta,
    expected: ProducerIdAndEpoch | None,
    timeout_ms: int,
    new_id: int,
    now_ms: TimestampMs,
) -> TransactionMeta:
    another = old.producer_epoch >= USED_UP
    return replace(
        old,
        producer_id=new_id if another else old.producer_id,
        producer_epoch=0 if another else old.producer_epoch + 1,
        last_producer_id=old.producer_id if another else NO_PRODUCER_ID,
        last_producer_epoch=NO_PRODUCER_EPOCH if expected is None else expected.epoch,
        state=after(old.state, TransactionEvent.INITIALIZE),
        timeout_ms=timeout_ms,
        start_ms=NO_TIMESTAMP,
        update_ms=now_ms,
    )


def fence(old: TransactionMeta, now_ms: TimestampMs, *, by_itself: bool = False) -> TransactionMeta:
    """The producer that has the transaction open may not go on with it, and it is aborted.

    `by_itself`: it asked for that, and may ask again with the epoch it has.
    """
    return replace(
        old,
        producer_epoch=old.producer_epoch + 1,
        last_producer_id=NO_PRODUCER_ID,
        last_producer_epoch=old.producer_epoch if by_itself else NO_PRODUCER_EPOCH,
        state=after(old.state, TransactionEvent.FENCE, TransactionEvent.ABORT),
        update_ms=now_ms,
    )


# -- while it is open ------------------------------------------------------------------------------


def add(
    old: TransactionMeta | None,
    who: ProducerIdAndEpoch,
    now_ms: TimestampMs,
    *,
    shards: Collection[ShardName] = (),
    groups: Collection[str] = (),
) -> TransactionMeta:
    """The transaction touches these too; it begins with the first of them."""
    known = _owned(old, who)
    if known.state in DECIDED:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    begins = known.state is not TransactionState.ONGOING
    added = replace(
        known,
        state=after(known.state, TransactionEvent.ADD),
        shards=frozenset(shards) if begins else known.shards.union(shards),
        groups=frozenset(groups) if begins else known.groups.union(groups),
    )
    if len(added.groups) > GROUPS_MAX:
        raise Refused(ErrorCode.INVALID_REQUEST)
    if added == known:
        return known
    return replace(added, start_ms=now_ms if begins else known.start_ms, update_ms=now_ms)


def verify(
    old: TransactionMeta | None,
    who: ProducerIdAndEpoch,
    *,
    shard: ShardName | None = None,
    group: str | None = None,
) -> bool:
    """Whether the transaction is open and touches this. Refused when there can be no such one."""
    known = _owned(old, who)
    if known.state in DECIDED:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if known.state is not TransactionState.ONGOING:
        return False
    return shard in known.shards if group is None else group in known.groups


def _owned(old: TransactionMeta | None, who: ProducerIdAndEpoch) -> TransactionMeta:
    if old is not None and _is_next(old, who):
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if old is None or old.producer_id != who.producer_id:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if old.producer_epoch != who.epoch:
        raise Refused(ErrorCode.PRODUCER_FENCED)
    return old


# -- EndTxn ----------------------------------------------------------------------------------------

_ENDED = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}
_ENDING = {True: TransactionState.PREPARE_COMMIT, False: TransactionState.PREPARE_ABORT}


def end(
    old: TransactionMeta | None,
    who: ProducerIdAndEpoch,
    *,
    commit: bool,
    now_ms: TimestampMs,
    renews: bool = False,
    new_id: int = NO_PRODUCER_ID,
) -> TransactionMeta:
    """The end is decided. The same object comes back when there is nothing to do any more.

    `renews`: the producer goes on with a new epoch; then `new_id` is what it gets instead where
    epochs are used up.
    """
    if renews and old is not None and _was_before(old, who) and not _is_spent(old):
        return _again(old, commit)
    known = _owned(old, who)
    if known.state in AT_REST and renews and commit:
        raise Refused(ErrorCode.INVALID_TXN_STATE)  # its epoch says it is no repetition
    if known.state in DECIDED and renews:
        # It was given its epoch by the end whose marks are being written: this is another end.
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if known.state is not TransactionState.ONGOING and not renews:
        return _again(known, commit)
    ended = replace(
        known,
        state=after(known.state, TransactionEvent.COMMIT if commit else TransactionEvent.ABORT),
        update_ms=now_ms,
    )
    if known.state in AT_REST:
        ended = replace(ended, shards=frozenset(), groups=frozenset())
    return _next_epoch(ended, new_id) if renews else ended


def _is_spent(old: TransactionMeta) -> bool:
    """At the epoch that is for fencing only: it is never answered, so the producer starts again."""
    return old.producer_epoch == EPOCH_MAX and old.next_producer_id == NO_PRODUCER_ID


def ends_with_new_id(old: TransactionMeta | None, who: ProducerIdAndEpoch) -> bool:
    """Whether `end` with `renews` is going to use the new producer id it is given."""
    return old is not None and _is_now(old, who) and old.producer_epoch >= USED_UP


def _again(known: TransactionMeta, commit: bool) -> TransactionMeta:
    """An end that is repeated: fine if it was the same end, and once it is done."""
    if known.state is _ENDED[commit]:
        return known
    if known.state is _ENDING[commit]:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    raise Refused(ErrorCode.INVALID_TXN_STATE)


def _next_epoch(ended: TransactionMeta, new_id: int) -> TransactionMeta:
    another = ended.producer_epoch >= USED_UP
    return replace(
        ended,
        producer_epoch=ended.producer_epoch + 1,
        last_producer_id=NO_PRODUCER_ID,
        last_producer_epoch=ended.producer_epoch,
        next_producer_id=new_id if another else NO_PRODUCER_ID,
    )


def complete(old: TransactionMeta, now_ms: TimestampMs) -> TransactionMeta:
    """All marks are written."""
    done = replace(
        old,
        state=after(old.state, TransactionEvent.MARKED),
        shards=frozenset(),
        groups=frozenset(),
        start_ms=NO_TIMESTAMP,
        update_ms=now_ms,
    )
    if old.next_producer_id == NO_PRODUCER_ID:
        return done
    return replace(
        done,
        producer_id=old.next_producer_id,
        producer_epoch=0,
        last_producer_id=old.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )


# -- time ------------------------------------------------------------------------------------------


def has_timed_out(one: TransactionMeta, now_ms: TimestampMs) -> bool:
    return one.state is TransactionState.ONGOING and one.start_ms + one.timeout_ms < now_ms


def has_expired(one: TransactionMeta, expiration_ms: int, now_ms: TimestampMs) -> bool:
    return one.state in AT_REST and one.update_ms + expiration_ms <= now_ms
