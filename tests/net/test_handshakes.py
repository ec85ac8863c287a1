"""TLS handshakes that fail: the log says in plain words what is wrong, and not too often."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stratamq.net import log_limit
from stratamq.net.listener import HANDSHAKE_TIMEOUT_S
from stratamq.net.log_limit import OTHERS, LogLimit
from stratamq.net.tls import ClientAuth
from tests.net.conftest import Certificates, _openssl
from tests.net.test_listener import _server, listening
from tests.waiting import let_pass, until

pytestmark = pytest.mark.needs("openssl")

Spoil = Callable[[ssl.SSLContext], None]


def signed(folder: Path, certificates: Certificates, days: int) -> Path:
    """A client's certificate that is valid for so many days from now on."""
    key, asked, pem = folder / "late.key", folder / "late.csr", folder / "late.pem"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    _openssl("req", *curve, "-subj", "/CN=late", "-keyout", key, "-out", asked)
    authority = certificates.authority
    signer = ("-CA", authority, "-CAkey", authority.with_suffix(".key"), "-CAcreateserial")
    _openssl("x509", "-req", "-in", asked, *signer, "-days", days, "-out", pem)
    pem.write_text(pem.read_text() + key.read_text())
    return pem


def shake_hands(port: int, context: ssl.SSLContext) -> None:
    """As a client of OpenSSL does, which says why it leaves."""
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        contextlib.suppress(ssl.SSLError, ConnectionError),
        context.wrap_socket(plain, server_hostname="localhost") as client,
    ):
        client.recv(1)


def old_version(context: ssl.SSLContext) -> None:
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore"):
        context.minimum_version = ssl.TLSVersion.TLSv1_1
        context.maximum_version = ssl.TLSVersion.TLSv1_1


def other_cipher(context: ssl.SSLContext) -> None:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES128-SHA")  # needs a key of RSA


def shown(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    return [vars(one)["fields"] for one in caplog.records if one.message == event]


async def reason_of(port: int, caplog: pytest.LogCaptureFixture) -> str:
    await until(lambda: shown(caplog, "TLS handshake failed"))
    (fields,) = shown(caplog, "TLS handshake failed")
    assert fields["host"] == "127.0.0.1"
    assert caplog.records[-1].levelno == logging.WARNING
    return str(fields["reason"])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (old_version, "no version of TLS from 1.2 on"),
        (other_cipher, "no cipher in common"),
        (lambda _: None, "the client has no certificate, which is required"),
    ],
)
async def test_what_client_and_node_do_not_share(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, spoil: Spoil, words: str
) -> None:
    context = ssl.create_default_context(cafile=certificates.authority)
    spoil(context)
    async with listening(tls=_server(certificates, ClientAuth.REQUIRED)) as (_, port, _):
        await asyncio.to_thread(shake_hands, port, context)
        assert words in await reason_of(port, caplog)


async def test_a_client_that_does_not_know_our_authority(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(tls=_server(certificates, ClientAuth.NONE)) as (_, port, _):
        await asyncio.to_thread(shake_hands, port, ssl.create_default_context())
        assert "does not know the authority" in await reason_of(port, caplog)


@pytest.mark.parametrize("kind", ["expired", "of another authority"])
async def test_a_certificate_that_is_not_accepted(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, tmp_path: Path, kind: str
) -> None:
    context = ssl.create_default_context(cafile=certificates.authority)
    if kind == "expired":
        context.load_cert_chain(signed(tmp_path, certificates, days=-1))
    else:
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-x509")
        key, pem = tmp_path / "own.key", tmp_path / "own.pem"
        _openssl("req", *curve, "-subj", "/CN=own", "-keyout", key, "-out", pem)
        context.load_cert_chain(pem, key)
    async with listening(tls=_server(certificates, ClientAuth.REQUIRED)) as (_, port, _):
        await asyncio.to_thread(shake_hands, port, context)
        reason = await reason_of(port, caplog)
    assert reason.startswith("the client's certificate is not accepted: ")
    assert ("expired" in reason) is (kind == "expired")


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"\0\0\0\x0a\0\x12\0\3\0\0\0\7\xff\xff", "a client without TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP on a port for TLS"),
    ],
)
async def test_plain_text_on_a_port_for_tls(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, sent: bytes, words: str
) -> None:
    async with listening(tls=_server(certificates, ClientAuth.NONE)) as (_, port, _):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        assert words in await reason_of(port, caplog)
        writer.close()


async def test_a_silent_client_is_named_and_a_probe_of_the_port_is_not(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(tls=_server(certificates, ClientAuth.NONE)) as (listener, port, _):
        _, probe = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: listener.connection_count == 1)
        probe.close()
        await until(lambda: listener.handshake_failures == 1)
        assert not caplog.records
        _, silent = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: listener.connection_count == 1)
        let_pass(HANDSHAKE_TIMEOUT_S + 1)
        assert "in time" in await reason_of(port, caplog)
        silent.close()


async def test_a_flood_of_handshakes_is_not_one_of_the_log(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(tls=_server(certificates, ClientAuth.NONE)) as (listener, port, _):
        for count in range(1, 31):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await until(lambda count=count: listener.handshake_failures == count)
            writer.close()
    assert len(shown(caplog, "TLS handshake failed")) == 10
    assert shown(caplog, "more failed TLS handshakes were not logged") == [
        {"host": "127.0.0.1", "left_out": 20}
    ]


async def test_lines_are_limited_by_key_and_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limit, "KEYS_MAX", 2)
    left_out: dict[str, int] = {}
    limit = LogLimit(left_out.__setitem__, lines_max=2, window_s=60)
    assert [limit.admits("a") for _ in range(5)] == [True, True, False, False, False]
    assert limit.admits("b")
    assert [limit.admits(other) for other in ("c", "d", "e")] == [True, True, False]
    let_pass(61)
    await until(lambda: left_out == {"a": 3, OTHERS: 1})
    assert limit.admits("a"), "its window is over"
    limit.close()
