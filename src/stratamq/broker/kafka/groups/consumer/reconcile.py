"""One step of one member towards its target.

A partition goes to its new owner only after the old one has let it go, so first everything that is
no longer the member's is revoked, then what is free is given. Partitions that others still hold
come with a later heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stratamq.broker.kafka.groups.consumer.members import (
    NOTHING,
    Member,
    MemberState,
    Partition,
    Partitions,
)


def reconcile(
    member: Member,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: Callable[[Partition], bool],
) -> Member:
    """`owned` is what the member says it still reads; `is_free`: no other member holds it."""
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return member
    if member.state is MemberState.UNREVOKED and _still_has(owned, member.revoking):
        return member
    return _advance(member, target_epoch, target, owned, is_free)


def _advance(
    member: Member,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: Callable[[Partition], bool],
) -> Member:
    kept = member.assigned & target
    revoking = member.assigned - target
    if revoking and _still_has(owned, revoking):
        return replace(member, state=MemberState.UNREVOKED, assigned=kept, revoking=revoking)
    wanted = target - kept
    free = frozenset(one for one in wanted if is_free(one))
    state = MemberState.STABLE if free == wanted else MemberState.UNRELEASED
    return _at(replace(member, state=state, assigned=kept | free, revoking=NOTHING), target_epoch)


def _at(member: Member, epoch: int) -> Member:
    if member.epoch == epoch:
        return member
    return replace(member, epoch=epoch, previous_epoch=member.epoch)


def _still_has(owned: Partitions | None, partitions: Partitions) -> bool:
    """A member that does not say what it owns owns what it did."""
    return owned is None or bool(owned & partitions)
