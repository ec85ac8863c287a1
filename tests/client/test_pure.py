"""What needs no node: versions, visibility, what is known of a cluster, pauses."""

from __future__ import annotations

from itertools import islice

import pytest

from stratamq.client.cluster import ClusterView, TopicPartition
from stratamq.client.connection import version_for
from stratamq.client.failures import Refusal, as_ours
from stratamq.client.fetching import Aborted, visible_batches
from stratamq.client.options import ClientOptions, Server, servers_of
from stratamq.client.router import may_pass, pauses_s
from stratamq.model.errors import Denied, NotLeader, TimedOut, Unreachable, UnsupportedFormat
from stratamq.model.record import Record
from stratamq.wire.kafka.protocol import ErrorCode, Versions
from stratamq.wire.kafka.records import ControlType, decode_batch, encode_batch, encode_control


def transactional(value: str, offset: int, producer: int) -> bytes:
    return encode_batch(
        [Record(value=value.encode())],
        now_ms=0,
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def mark(kind: ControlType, offset: int, producer: int) -> bytes:
    return encode_control(
        kind,
        producer_id=producer,
        producer_epoch=0,
        coordinator_epoch=0,
        now_ms=0,
        base_offset=offset,
    )


def seen(data: bytes, *aborted: Aborted) -> list[bytes | None]:
    return [
        record.value
        for header, batch in visible_batches(data, aborted)
        for record in decode_batch(header, batch)
    ]


def test_only_the_aborted_transaction_of_a_producer_is_left_out() -> None:
    log = b"".join(
        (
            transactional("1 kept", 0, producer=1),
            transactional("2 void", 1, producer=2),
            mark(ControlType.COMMIT, 2, producer=1),
            encode_batch([Record(value=b"plain")], now_ms=0, base_offset=3),
            mark(ControlType.ABORT, 4, producer=2),
            transactional("2 kept", 5, producer=2),
            transactional("1 void", 6, producer=1),
        )
    )
    assert seen(log, Aborted(1, 2), Aborted(6, 1)) == [b"1 kept", b"plain", b"2 kept"]
    assert seen(log) == [b"1 kept", b"2 void", b"plain", b"2 kept", b"1 void"]


def test_an_aborted_transaction_that_began_before_what_was_fetched() -> None:
    log = transactional("void", 10, producer=2) + mark(ControlType.ABORT, 11, producer=2)
    assert seen(log, Aborted(3, 2)) == []


def test_versions_are_the_newest_in_common_within_our_caps() -> None:
    assert version_for(1, {1: Versions(4, 18)}) == 12
    assert version_for(1, {1: Versions(4, 7)}) == 7
    with pytest.raises(UnsupportedFormat, match="Fetch"):
        version_for(1, {1: Versions(13, 18)})
    with pytest.raises(UnsupportedFormat, match="EndTxn"):
        version_for(26, {})


def test_what_may_pass_is_tried_again_and_nothing_else() -> None:
    assert may_pass(Unreachable("x"))
    assert may_pass(TimedOut("x"))
    assert may_pass(Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "x"))
    assert not may_pass(Refusal(ErrorCode.MESSAGE_TOO_LARGE, "x"))
    assert not may_pass(Denied("x"))


def test_a_refusal_becomes_an_error_of_ours() -> None:
    error = as_ours(Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "orders-0"))
    assert isinstance(error, NotLeader)
    assert str(error).startswith("orders-0: another node leads")


def test_pauses_grow_up_to_their_limit() -> None:
    options = ClientOptions(servers=(Server("h", 1),), backoff_ms=10, backoff_ms_max=100)
    some = list(islice(pauses_s(options), 8))
    assert some[0] <= 0.012
    assert all(0.08 <= pause <= 0.12 for pause in some[4:])


def test_servers() -> None:
    assert servers_of("a:1, b,[::1]:2") == (Server("a", 1), Server("b", 9092), Server("::1", 2))


def test_nobody_leads_what_is_not_known() -> None:
    assert ClusterView(nodes={}).leader(TopicPartition("t", 0)) is None
