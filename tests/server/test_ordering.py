"""What passes what on one connection."""

from __future__ import annotations

from itertools import product

import pytest

from stratamq.broker.kafka.security.guard import JUDGED_AT_ONCE
from stratamq.server.kafka.ordering import (
    MAY_PASS,
    NAMES,
    WAITS_FOR,
    RequestKind,
    UnderWay,
    kind_of,
)
from stratamq.wire.kafka.protocol import APIS, Request, RequestHeader
from stratamq.wire.kafka.protocol.messages.fetch import FetchRequest


def may_begin(kind: int, under_way: UnderWay) -> bool:
    return not under_way.kinds & WAITS_FOR[kind]


KINDS = {
    name: value
    for name, value in vars(RequestKind).items()
    if isinstance(value, int) and name.isupper()
}

ALLOWED = {
    "APPEND": "APPEND FETCH SESSION_FETCH FLUSH",
    "FETCH": "FETCH SESSION_FETCH READ FLUSH",
    "SESSION_FETCH": "FETCH READ FLUSH",
    "READ": "FETCH SESSION_FETCH READ FLUSH",
    "CHANGE": "FETCH SESSION_FETCH FLUSH",
    "FLUSH": "FETCH SESSION_FETCH READ",
    "ALONE": "",
}


@pytest.mark.parametrize(("later", "earlier"), list(product(KINDS, KINDS)))
def test_what_may_begin_while_another_is_under_way(later: str, earlier: str) -> None:
    under_way = UnderWay()
    under_way.began(KINDS[earlier])
    assert may_begin(KINDS[later], under_way) is (earlier in ALLOWED[later].split())
    under_way.answered(KINDS[earlier])
    assert may_begin(KINDS[later], under_way)


def test_each_of_several_has_to_be_answered() -> None:
    under_way = UnderWay()
    for kind in (RequestKind.CHANGE, RequestKind.APPEND, RequestKind.APPEND):
        under_way.began(kind)
    for kind in (RequestKind.APPEND, RequestKind.CHANGE):
        under_way.answered(kind)
        assert not may_begin(RequestKind.READ, under_way)
    under_way.answered(RequestKind.APPEND)
    assert may_begin(RequestKind.READ, under_way)


def header(name: str) -> RequestHeader:
    (key,) = (api.key for api in APIS.values() if api.name == name)
    return RequestHeader(key, 0, 0)


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for kind, names in NAMES.items() for name in names]
)
def test_every_row_names_an_api(name: str, kind: int) -> None:
    assert kind_of(Request(header(name), None)) == kind
    assert kind in MAY_PASS


def test_no_api_has_two_rows() -> None:
    names = [name for row in NAMES.values() for name in row]
    assert len(names) == len(set(names)) > 50


def test_what_the_table_does_not_name_runs_alone() -> None:
    assert kind_of(Request(RequestHeader(12_345, 0, 0), None)) == RequestKind.ALONE


@pytest.mark.parametrize(
    ("session", "epoch", "kind"),
    [
        (0, -1, RequestKind.FETCH),
        (0, 0, RequestKind.SESSION_FETCH),
        (7, 0, RequestKind.SESSION_FETCH),
        (7, 3, RequestKind.SESSION_FETCH),
        (7, -1, RequestKind.SESSION_FETCH),
    ],
)
def test_fetches_of_a_session_keep_their_order(session: int, epoch: int, kind: int) -> None:
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[], session_id=session, session_epoch=epoch
    )
    assert kind_of(Request(header("Fetch"), request)) == kind


def test_a_produce_that_lists_much_keeps_its_place() -> None:
    """Rights to so many topics are judged in turns, and the next request must not overtake it."""
    assert kind_of(Request(header("Produce"), None, JUDGED_AT_ONCE)) == RequestKind.APPEND
    assert kind_of(Request(header("Produce"), None, JUDGED_AT_ONCE + 1)) == RequestKind.ALONE
