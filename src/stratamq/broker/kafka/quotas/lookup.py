"""Whose limit counts for whom. Pure.

Of the limits of one kind, the first of these that there is: for the user and the client id, for the
user, for the client id; and in each step those by name before those for everybody else. A limit for
a user is shared by all their clients; one for everybody else is each one's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from stratamq.meta.access import DEFAULT, Quota, QuotaScope


class Limit(NamedTuple):
    """`shared_by` names who uses up the limit together."""

    per_second_max: float
    shared_by: QuotaScope


def limit_of(
    quotas: Mapping[QuotaScope, Quota], kind: str, user: str, client_id: str
) -> Limit | None:
    for scope in scopes(user, client_id):
        found = quotas.get(scope)
        if found is not None and kind in found.limits:
            shared_by = QuotaScope(
                None if scope.user is None else user,
                None if scope.client_id is None else client_id,
            )
            return Limit(found.limits[kind], shared_by)
    return None


def scopes(user: str, client_id: str) -> Iterator[QuotaScope]:
    """In Kafka's order."""
    for one in (user, DEFAULT):
        yield QuotaScope(one, client_id)
        yield QuotaScope(one, DEFAULT)
        yield QuotaScope(one, None)
    yield QuotaScope(None, client_id)
    yield QuotaScope(None, DEFAULT)
