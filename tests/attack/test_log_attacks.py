"""What clients can do to the log of a real node: neither forge a line nor fill the disk."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from stratamq.wire.kafka.protocol import encode_request
from stratamq.wire.kafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from tests.clients.node import running
from tests.clients.security import add_users
from tests.waiting import every, until

FORGED = "\n2026-01-01T00:00:00.000Z info stratamq.node stopped\r\x1b[2J\u2028"
CLIENT_ID = (FORGED * 1000).encode()[:32_000].decode(errors="ignore")
SECRET = b"correct-horse-battery"
LINE = re.compile(r"(20\d\d-\d\d-\d\dT\S+Z \w+ [\w.]+ |    )\S")
LOGINS = 300


async def log_in(port: int, limit: asyncio.Semaphore) -> None:
    async with limit:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        token = b"\0mallory" + FORGED.encode() + b"\0" + SECRET
        for number, (body, version) in enumerate(
            [
                (SaslHandshakeRequest(mechanism="PLAIN"), 1),
                (SaslAuthenticateRequest(auth_bytes=token), 2),
            ]
        ):
            writer.writelines(encode_request(body, version, number, CLIENT_ID))
        while await reader.read(1 << 16):
            pass
        writer.close()


async def test_failed_logins_of_a_client_with_a_long_name(tmp_path: Path) -> None:
    add_users(tmp_path, "root")
    flags = ("--sasl-enabled-mechanisms", "PLAIN", "--log-slow-ms", "1")
    delay = ("--connection-failed-authentication-delay-ms", "0")
    with running(tmp_path, *flags, *delay) as node:
        limit = asyncio.Semaphore(20)
        await asyncio.gather(*(log_in(node.port, limit) for _ in range(LOGINS)))
        node.process.terminate()
        await until(lambda: node.process.poll() is not None)
        text = node.logged()
        assert node.end() == 0
    assert text.count(" login failed ") == 10
    assert f"more failed logins were not logged host=127.0.0.1 left_out={LOGINS - 10}" in text
    assert len(text) < 100_000
    assert SECRET.decode() not in text
    assert text.count(" info stratamq.node stopped\n") == 1, "only the node's own"
    for line in every(text.split("\n")[:-1]):
        assert LINE.match(line), line
        assert line.isprintable()
