"""Certificates for a few minutes, made by openssl: an authority, a server and a client."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Certificates:
    authority: Path
    server: Path
    client: Path


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Each PEM file holds the certificate and its key."""
    folder = tmp_path_factory.mktemp("tls")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    authority, authority_key = folder / "ca.pem", folder / "ca.key"
    made = (*curve, "-x509", "-subj", "/CN=test authority", "-days", 1)
    _openssl("req", *made, "-keyout", authority_key, "-out", authority)
    for name, subject in {"server": "/CN=localhost", "client": "/O=Example/CN=reports"}.items():
        key, asked, pem = folder / f"{name}.key", folder / f"{name}.csr", folder / f"{name}.pem"
        _openssl("req", *curve, "-subj", subject, "-keyout", key, "-out", asked)
        extension = folder / f"{name}.ext"
        extension.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        signer = ("-CA", authority, "-CAkey", authority_key, "-CAcreateserial", "-days", 1)
        _openssl("x509", "-req", "-in", asked, *signer, "-extfile", extension, "-out", pem)
        pem.write_text(pem.read_text() + key.read_text())
    return Certificates(authority, folder / "server.pem", folder / "client.pem")
