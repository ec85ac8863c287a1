"""Files of TLS that cannot be used: which one, and why, in words that users know."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from stratamq.model.errors import InvalidConfig
from stratamq.net.tls import client_context, server_context
from tests.net.conftest import Certificates


@pytest.fixture
def files(tmp_path: Path, certificates: Certificates) -> dict[str, Path]:
    """By what is wrong with them; `server` and `client` hold certificate and key."""
    key = certificates.client.with_suffix(".key")
    (tmp_path / "nonsense.pem").write_text("nonsense")
    begin = "-----BEGIN CERTIFICATE-----\n"
    (tmp_path / "damaged.pem").write_text(f"{begin}AAAA\n{begin.replace('BEGIN', 'END')}")
    locked = ("openssl", "ec", "-in", key, "-aes256", "-passout", "pass:x", "-out")
    subprocess.run([*locked, tmp_path / "locked.key"], check=True, capture_output=True, timeout=60)
    return {
        "server": certificates.server,
        "client": certificates.client,
        "authority": certificates.authority,
        **{name.split(".")[0]: tmp_path / name for name in ("nonsense.pem", "damaged.pem")},
        "locked": tmp_path / "locked.key",
        "missing": tmp_path / "missing.pem",
    }


@pytest.mark.parametrize(
    ("certificate", "key", "said"),
    [
        ("missing", "server", "missing.pem cannot be read: No such file or directory"),
        ("nonsense", "server", "nonsense.pem holds no certificate in PEM form"),
        ("server", "nonsense", "nonsense.pem holds no private key in PEM form"),
        ("authority", "authority", "ca.pem holds no private key in PEM form"),
        ("server", "client", "client.pem is not the key of .*server.pem"),
        ("client", "locked", "the key has a password"),
        ("damaged", "server", "a part is damaged"),
    ],
)
def test_a_node_says_which_file_and_why(
    files: dict[str, Path], certificate: str, key: str, said: str
) -> None:
    for make in (
        lambda: server_context(files[certificate], files[key]),
        lambda: client_context(certificate=files[certificate], key=files[key]),
    ):
        with pytest.raises(InvalidConfig, match=said) as found:
            make()
        assert "[SSL]" not in str(found.value)
        assert "Errno" not in str(found.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing", "missing.pem cannot be read"),
        ("nonsense", "nonsense.pem holds no certificate"),
        ("damaged", "damaged.pem cannot be used: a part is damaged"),
    ],
)
def test_the_same_for_authorities(files: dict[str, Path], name: str, said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        client_context(authorities=files[name])


def test_authorities_that_are_named_are_the_only_ones(files: dict[str, Path]) -> None:
    context = client_context(authorities=files["authority"])
    assert len(context.get_ca_certs()) == 1
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
