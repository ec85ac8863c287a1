"""Nodes that ask who is there, and the settings of clients that can tell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.clients.node import ROOT

PASSWORD = "correct horse battery staple"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SECURE = (
    *("--sasl-enabled-mechanisms", ",".join(MECHANISMS)),
    *("--authorizer", "acl", "--super-users", "User:root"),
    *("--topic-flush", "os", "--log-level", "debug"),
)


def add_users(data: Path, *names: str) -> None:
    """As an operator does it before the first start."""
    for name in names:
        subprocess.run(
            [*(sys.executable, "-m", "stratamq.cli"), "user", "add", name, "--data-dir", str(data)],
            input=PASSWORD + "\n",
            text=True,
            check=True,
            capture_output=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )


def librdkafka(
    address: str, user: str, mechanism: str = "SCRAM-SHA-256", **more: Any
) -> dict[str, Any]:
    config = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": PASSWORD,
        "log_level": 0,
    }
    return {**config, **{name.replace("_", "."): value for name, value in more.items()}}


def kafka_python(address: str, user: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    return {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": PASSWORD,
    }


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """Authority, server and client; each PEM file holds the certificate and its key."""
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    authority, authority_key = folder / "ca.pem", folder / "ca.key"
    made = (*curve, "-x509", "-subj", "/CN=test authority", "-days", 1)
    _openssl("req", *made, "-keyout", authority_key, "-out", authority)
    for name, subject in {"server": "/CN=localhost", "client": "/O=Example/CN=Reports"}.items():
        key, asked, pem = folder / f"{name}.key", folder / f"{name}.csr", folder / f"{name}.pem"
        _openssl("req", *curve, "-subj", subject, "-keyout", key, "-out", asked)
        extension = folder / f"{name}.ext"
        extension.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        signer = ("-CA", authority, "-CAkey", authority_key, "-CAcreateserial", "-days", 1)
        _openssl("x509", "-req", "-in", asked, *signer, "-extfile", extension, "-out", pem)
        pem.write_text(pem.read_text() + key.read_text())
    return authority, folder / "server.pem", folder / "client.pem"


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)
