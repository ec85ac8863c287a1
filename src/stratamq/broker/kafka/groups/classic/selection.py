"""Which protocol a group uses: one that all its members know, by most votes."""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Collection, Iterable

from stratamq.broker.kafka.groups.classic.members import Protocol


class Voter(typing.Protocol):
    """A member, as far as protocols go."""

    @property
    def protocols(self) -> tuple[Protocol, ...]: ...


def common(members: Iterable[Voter]) -> set[str]:
    """The names that every member knows."""
    sets = [{one.name for one in member.protocols} for member in members]
    return set.intersection(*sets) if sets else set()


def selected(members: Collection[Voter]) -> str:
    """Each member votes for the first of its own that all know; the earliest wins a tie."""
    candidates = common(members)
    votes = Counter(
        next(one.name for one in member.protocols if one.name in candidates) for member in members
    )
    return votes.most_common(1)[0][0]


def fits(members: Collection[Voter], protocols: tuple[Protocol, ...]) -> bool:
    """Whether someone who knows these protocols can be in a group with them."""
    names = {one.name for one in protocols}
    return bool(names & common(members)) if members else bool(names)
