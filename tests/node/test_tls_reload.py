"""SIGHUP makes a node read its certificate again: a real node, real handshakes."""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
from pathlib import Path

import pytest

from tests.clients.node import Node, running
from tests.clients.security import certificates
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("openssl")

API_VERSIONS_0 = bytes.fromhex("0000000b 0012 0000 00000007 0001 78".replace(" ", ""))


def connected(node: Node) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection((node.host, node.port), 30))


def shown(node: Node) -> bytes | None:
    with connected(node) as connection:
        return connection.getpeercert(binary_form=True)


def is_served(connection: ssl.SSLSocket) -> bool:
    connection.sendall(API_VERSIONS_0)
    return connection.recv(8)[4:] == bytes.fromhex("00000007")


def test_a_new_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    servers = []
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        servers.append(certificates(tmp_path / name)[1])
    pem = tmp_path / "server.pem"
    shutil.copy(servers[0], pem)
    flags = ("--kafka-tls-certificate", str(pem), "--log-level", "info")
    with running(tmp_path / "data", *flags) as node:
        first = shown(node)
        with connected(node) as kept:
            shutil.copy(servers[1], pem)
            node.process.send_signal(signal.SIGHUP)
            wait_until(lambda: shown(node) != first, "the new certificate")
            second = shown(node)
            assert is_served(kept), "connections that are open stay open"
        pem.write_text("no certificate")
        node.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "the certificate stays as it was" in node.logged(), "a report")
        assert shown(node) == second
        assert node.end() == 0
