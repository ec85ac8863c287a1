"""SASL on a connection of a real front: nothing before it, the right name after it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stratamq.broker.kafka.security import sasl
from stratamq.model.access import Operation, ResourceKind
from stratamq.model.errors import InvalidConfig
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.api_versions import ApiVersionsRequest
from stratamq.wire.kafka.protocol.messages.groups_admin import (
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from stratamq.wire.kafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from stratamq.wire.kafka.protocol.schema import message_of
from tests.broker.security.requests import SAMPLES
from tests.broker.security.support import (
    PASSWORD,
    WITH_SASL,
    Front,
    client,
    codes,
    front,
    log_in,
    rule,
    with_users,
)
from tests.waiting import let_pass

SOFTWARE = ApiVersionsRequest(client_software_name="a", client_software_version="1")
OPEN_TO_ALL = {ApiVersionsRequest}


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Front]:
    async with front(tmp_path, **WITH_SASL) as one:
        await with_users(one, "alice", "bob")
        yield one


async def test_only_three_apis_before_authentication(door: Front) -> None:
    async with client(door.port) as peer:
        served = {one.api_key for one in (await peer.ask(SOFTWARE)).api_keys}
    assert {17, 36} <= served
    for request, sample in SAMPLES.items():
        if request in OPEN_TO_ALL:
            continue
        async with client(door.port) as peer:
            body = sample.make(message_of(request).versions.last, b"\1" * 16)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await peer.ask(body)


async def test_the_name_that_was_proven_is_the_one_that_counts(door: Front) -> None:
    await door.allow(rule(Operation.READ, ResourceKind.GROUP, "g", principal="User:alice"))
    asked = DescribeGroupsRequest(groups=["g"])
    for user, told in (("alice", {69}), ("bob", {30})):
        async with client(door.port) as peer:
            assert (await log_in(peer, user)).error_code == 0
            assert codes(await peer.ask(asked)) == told, user


@pytest.mark.parametrize(("user", "password"), [("alice", b"zebra"), ("nobody", PASSWORD)])
async def test_whatever_is_wrong_the_answer_is_the_same(
    door: Front, user: str, password: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with client(door.port) as peer:
        answer = await log_in(peer, user, password)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == "Authentication failed."
        assert await peer.is_closed()
    assert password.decode() not in caplog.text
    assert all(password.decode() not in str(one.__dict__) for one in caplog.records)


async def test_nobody_gets_a_challenge_like_anybody_else(door: Front) -> None:
    told = []
    for user in ("alice", "nobody", "nobody"):
        async with client(door.port) as peer:
            await peer.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
            token = f"n,,n={user},r=abc".encode()
            answer = await peer.ask(SaslAuthenticateRequest(auth_bytes=token))
            assert answer.error_code == 0
            told.append(bytes(answer.auth_bytes).decode().split(",")[1:])
    assert told[1] == told[2], "asking twice tells that there is nobody"
    assert [len(one[0]) for one in told] == [len(told[0][0])] * 3
    assert [one[1] for one in told] == ["i=4096"] * 3


async def test_a_made_up_salt_outlives_a_restart(tmp_path: Path) -> None:
    salts = set()
    for _ in range(2):
        async with front(tmp_path, **WITH_SASL) as door, client(door.port) as peer:
            await peer.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
            first = SaslAuthenticateRequest(auth_bytes=b"n,,n=nobody,r=abc")
            answer = await peer.ask(first)
            salts.add(bytes(answer.auth_bytes).split(b",")[1])
    assert len(salts) == 1


async def test_only_what_is_configured_is_offered(door: Front) -> None:
    async with client(door.port) as peer:
        answer = await peer.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"))
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
        assert await peer.is_closed()


async def test_a_token_without_a_handshake_is_refused(door: Front) -> None:
    async with client(door.port) as peer:
        answer = await peer.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + PASSWORD))
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await peer.is_closed()


async def test_a_session_ends_unless_it_is_renewed(tmp_path: Path) -> None:
    async with front(tmp_path, connections_max_reauth_ms=100_000, **WITH_SASL) as door:
        await with_users(door, "alice", "bob")
        async with client(door.port) as peer, client(door.port) as lazy:
            assert (await log_in(lazy)).session_lifetime_ms == 100_000
            for _ in range(3):
                assert (await log_in(peer)).session_lifetime_ms == 100_000
                await peer.ask(ListGroupsRequest())
                let_pass(60)
            await peer.ask(ListGroupsRequest())
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await lazy.ask(ListGroupsRequest())


async def test_nobody_comes_back_as_somebody_else(door: Front) -> None:
    async with client(door.port) as peer:
        await log_in(peer, "alice")
        answer = await log_in(peer, "bob")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await peer.is_closed()


async def test_hashing_does_not_stall_the_others(
    door: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes its time in a thread; meanwhile another connection is served."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(credential: object, password: bytes) -> bool:
        begun.set()
        return go_on.wait(20)

    monkeypatch.setattr(sasl, "is_password", slow)
    async with client(door.port) as busy, client(door.port) as other:
        work = asyncio.create_task(log_in(busy))
        assert await asyncio.to_thread(begun.wait, 20)
        await other.ask(SOFTWARE)
        assert not work.done()
        go_on.set()
        assert (await work).error_code == 0


async def test_strangers_may_not_send_much(door: Front) -> None:
    size = (512 << 10) + 1
    async with client(door.port) as stranger:
        stranger.write(size.to_bytes(4, "big"))
        assert await stranger.is_closed()
    async with client(door.port) as known:
        await log_in(known)
        groups = DescribeGroupsRequest(groups=["g" * 30_000] * 20)
        assert codes(await known.ask(groups)) == {ErrorCode.GROUP_AUTHORIZATION_FAILED}


async def test_a_front_without_sasl_does_not_speak_of_it(tmp_path: Path) -> None:
    async with front(tmp_path) as door, client(door.port) as peer:
        served = {one.api_key for one in (await peer.ask(SOFTWARE)).api_keys}
        assert not {17, 36} & served


def test_mechanisms_that_are_not_known_are_refused() -> None:
    assert sasl.mechanisms_of(" plain, SCRAM-SHA-512 ") == ("PLAIN", "SCRAM-SHA-512")
    with pytest.raises(InvalidConfig):
        sasl.mechanisms_of("PLAIN,GSSAPI")
