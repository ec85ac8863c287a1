"""A node that other machines reach says where it is found, and whether it asks who they are."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from stratamq.model.config import load
from stratamq.node.kafka import warn_if_open
from tests.clients.node import running


@pytest.mark.parametrize(
    ("host", "flags", "warns"),
    [
        ("0.0.0.0", {}, True),
        ("::", {}, True),
        ("10.0.0.7", {"kafka.tls.certificate": "/c", "kafka.tls.client.auth": "requested"}, True),
        ("127.0.0.1", {}, False),
        ("::1", {}, False),
        ("0.0.0.0", {"sasl.enabled.mechanisms": "PLAIN"}, False),
        ("0.0.0.0", {"kafka.tls.certificate": "/c", "kafka.tls.client.auth": "required"}, False),
    ],
)
def test_an_open_port_without_authentication_is_a_warning(
    host: str, flags: dict[str, object], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "stratamq.node"):
        warn_if_open(load(flags=flags), host)
    assert [host in record.getMessage() for record in caplog.records] == [True] * warns


def test_the_ready_line_has_the_address_for_clients(tmp_path: Path) -> None:
    flags = "--kafka-advertised-host", "mq.example.org", "--kafka-advertised-port", "9999"
    with running(tmp_path, *flags) as node:
        assert node.host == "127.0.0.1"
        assert " advertised=mq.example.org:9999 " in node.ready
        assert node.end() == 0
