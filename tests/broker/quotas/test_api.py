"""Quotas over Kafka's APIs: set, described by filters, enforced at once, there after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.groups_admin import ListGroupsRequest
from stratamq.wire.kafka.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    QuotaAlteration,
    QuotaEntity,
    QuotaFilterComponent,
    QuotaOperation,
)
from tests.broker.security.support import Client, client, front

RATE = "producer_byte_rate"


def alteration(entity: dict[str, str | None], **limits: float | None) -> QuotaAlteration:
    return QuotaAlteration(
        entity=[QuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[
            QuotaOperation(key=key, value=value or 0.0, remove=value is None)
            for key, value in limits.items()
        ],
    )


async def alter(peer: Client, *entries: QuotaAlteration, validate_only: bool = False) -> list[int]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    return [one.error_code for one in (await peer.ask(request)).entries]


async def described(
    peer: Client, *parts: tuple[str, int, str | None], strict: bool = False
) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    components = [
        QuotaFilterComponent(entity_type=kind, match_type=how, match=name)
        for kind, how, name in parts
    ]
    answer: Any = await peer.ask(DescribeClientQuotasRequest(components=components, strict=strict))
    assert answer.error_code == 0
    return [
        (
            {one.entity_type: one.entity_name for one in entry.entity},
            {one.key: one.value for one in entry.values},
        )
        for entry in answer.entries
    ]


ALICE: dict[str, str | None] = {"user": "alice"}
BOTH: dict[str, str | None] = {"user": "alice", "client-id": "app"}
EVERYBODY: dict[str, str | None] = {"user": None}


async def test_quotas_are_kept_described_and_taken_back(tmp_path: Path) -> None:
    async with front(tmp_path) as door, client(door.port) as peer:
        entries = [alteration(one, **{RATE: 5e6}) for one in (ALICE, BOTH, EVERYBODY)]
        assert await alter(peer, *entries) == [0, 0, 0]
    async with front(tmp_path) as door, client(door.port) as peer:
        every = await described(peer)
        assert [one for one, _ in every] == [EVERYBODY, ALICE, BOTH]
        assert all(limits == {RATE: 5e6} for _, limits in every)
        assert [one for one, _ in await described(peer, ("user", 0, "alice"))] == [ALICE, BOTH]
        exactly = await described(peer, ("user", 0, "alice"), strict=True)
        assert [one for one, _ in exactly] == [ALICE]
        assert [one for one, _ in await described(peer, ("user", 1, None))] == [EVERYBODY]
        assert len(await described(peer, ("user", 2, None))) == 3
        assert await described(peer, ("client-id", 1, None)) == []
        assert await alter(peer, alteration(ALICE, **{RATE: None})) == [0]
        assert [one for one, _ in await described(peer)] == [EVERYBODY, BOTH]


@pytest.mark.parametrize(
    "entry",
    [
        alteration({}, **{RATE: 1.0}),
        alteration({"ip": "::1"}, connection_creation_rate=1.0),
        alteration({"user": ""}, **{RATE: 1.0}),
        alteration(ALICE, **{RATE: -1.0}),
        alteration(ALICE, controller_mutation_rate=1.0),
    ],
)
async def test_what_is_not_enforced_is_not_taken(tmp_path: Path, entry: QuotaAlteration) -> None:
    async with front(tmp_path) as door, client(door.port) as peer:
        assert await alter(peer, entry) == [ErrorCode.INVALID_REQUEST]
        assert await described(peer) == []


async def test_trying_changes_nothing(tmp_path: Path) -> None:
    async with front(tmp_path) as door, client(door.port) as peer:
        entry = alteration(ALICE, **{RATE: 1.0})
        assert await alter(peer, entry, validate_only=True) == [0]
        assert await described(peer) == []


async def test_a_quota_counts_at_once_and_for_whom_it_is(tmp_path: Path) -> None:
    """The client's id is `tester`; its requests take more than the smallest share of time."""
    async with front(tmp_path) as door, client(door.port) as peer:
        assert (await peer.ask(ListGroupsRequest())).throttle_time_ms == 0
        least = {"request_percentage": 1e-9}
        assert await alter(peer, alteration({"client-id": "somebody"}, **least)) == [0]
        assert (await peer.ask(ListGroupsRequest())).throttle_time_ms == 0
        assert await alter(peer, alteration({"client-id": "tester"}, **least)) == [0]
        assert (await peer.ask(ListGroupsRequest())).throttle_time_ms == 1000
