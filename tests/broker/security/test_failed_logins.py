"""Logins that fail: the log has the user's name and address, no secret, and no flood."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from stratamq.broker.kafka.security.logins import FailedLogins
from stratamq.cli import logs
from stratamq.client import Client, ClientOptions
from stratamq.client.options import Login, Server
from stratamq.model.config import load
from stratamq.model.errors import Denied
from stratamq.server.kafka.auth import NoSasl
from stratamq.wire.kafka.protocol.messages.groups_admin import ListGroupsRequest
from stratamq.wire.kafka.protocol.messages.sasl import SaslHandshakeRequest
from tests.broker.security.support import WITH_SASL, Front, client, front, log_in, with_users

SECRET = "tr0ub4dor"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """All that a node logs, in JSON and down to debug."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = list(root.handlers), root.level
    logs.setup(load(flags={"log.format": "json", "log.level": "debug"}), stream)
    yield stream
    root.handlers[:], root.level = handlers, level


@pytest.fixture
async def door(tmp_path: Path, lines: io.StringIO) -> AsyncIterator[Front]:
    async with front(tmp_path, **WITH_SASL) as one:
        await with_users(one, "alice")
        yield one


def failures(lines: io.StringIO, event: str = "login failed") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [one for one in found if one["event"] == event]


@pytest.mark.parametrize("user", ["alice", "mallory"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_wrong_password(door: Front, lines: io.StringIO, user: str, mechanism: str) -> None:
    login = Login(mechanism=mechanism, user=user, password=SECRET)
    options = ClientOptions(servers=(Server("127.0.0.1", door.port),), login=login)
    with pytest.raises(Denied):
        async with Client(options) as peer:
            await peer.cluster()
    line = failures(lines)[0]
    assert line["level"] == "warning"
    assert (line["user"], line["mechanism"], line["host"]) == (user, mechanism, "127.0.0.1")
    assert line["reason"] == "wrong password, or no such user"
    assert line["request"]
    assert SECRET not in lines.getvalue()


async def test_what_is_not_offered_and_what_did_not_log_in(door: Front, lines: io.StringIO) -> None:
    async with client(door.port) as peer:
        await peer.ask(SaslHandshakeRequest(mechanism="GSSAPI"))
    async with client(door.port) as peer:
        with pytest.raises((EOFError, ConnectionError)):
            await peer.ask(ListGroupsRequest())
    first, second = failures(lines)
    assert first["mechanism"] == "GSSAPI"
    assert first["reason"] == "the mechanisms are PLAIN, SCRAM-SHA-256"
    assert second["reason"].startswith("ListGroups without a login")
    assert door.kafka.server is not None
    assert door.kafka.server.logins.count == 2


async def test_a_name_cannot_forge_a_line(door: Front, lines: io.StringIO) -> None:
    async with client(door.port) as peer:
        await log_in(peer, "x\n{}\r\x1b[2J" + "n" * 5000, b"wrong")
    (line,) = failures(lines)
    assert line["user"].startswith("x\n{}\r\x1b[2Jn")
    assert len(line["user"]) < 1100


async def test_a_flood_of_logins_is_not_one_of_the_log(tmp_path: Path, lines: io.StringIO) -> None:
    async with front(tmp_path, **WITH_SASL) as door:
        for _ in range(40):
            async with client(door.port) as peer:
                await peer.ask(SaslHandshakeRequest(mechanism="GSSAPI"))
    assert len(failures(lines)) == 10
    (rest,) = failures(lines, "more failed logins were not logged")
    assert (rest["host"], rest["left_out"]) == ("127.0.0.1", 30)


async def test_a_certificate_without_a_name(lines: io.StringIO) -> None:
    logins = FailedLogins()
    security = NoSasl(lambda certified: None, logins)
    assert security.authenticator("10.0.0.7", "User:CN=old,O=Example").principal is None
    (line,) = failures(lines)
    assert (line["user"], line["mechanism"], line["host"]) == (
        *("CN=old,O=Example", "certificate", "10.0.0.7"),
    )
    assert logins.count == 1
    logins.close()
