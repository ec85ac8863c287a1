"""The client's side of PLAIN (RFC 4616) and SCRAM (RFC 5802). Pure: tokens in, tokens out."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator

from stratamq.client.options import Login
from stratamq.model.errors import Denied

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS_MAX = 1_000_000
"""A server that asks for more wants our processor, not our password."""

Exchange = Generator[bytes, bytes, None]


def exchange(login: Login, nonce: str | None = None) -> Exchange:
    """Yields what to send, takes what was answered. Denied when the server cannot prove itself."""
    if login.mechanism == "PLAIN":
        return _plain(login)
    return _scram(login, nonce or secrets.token_urlsafe(24))


def _plain(login: Login) -> Exchange:
    yield b"\0" + login.user.encode() + b"\0" + login.password.encode()


def _scram(login: Login, nonce: str) -> Exchange:
    algorithm = _HASHES[login.mechanism]
    name = login.user.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={name},r={nonce}"
    challenge = yield b"n,," + bare.encode()
    said = _parts(challenge)
    if not said.get("r", "").startswith(nonce):
        raise Denied("the server's answer belongs to another login")
    iterations = int(said.get("i", "0"))
    if not 0 < iterations <= _ITERATIONS_MAX:
        raise Denied(f"the server asks for {iterations} rounds of hashing")
    salt = base64.b64decode(said.get("s", ""))
    salted = hashlib.pbkdf2_hmac(algorithm, login.password.encode(), salt, iterations)
    without_proof = f"c=biws,r={said['r']}"
    spoken = f"{bare},{challenge.decode()},{without_proof}".encode()
    proof = base64.b64encode(_proof(algorithm, salted, spoken)).decode()
    answer = yield f"{without_proof},p={proof}".encode()
    signature = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), spoken, algorithm)
    if not hmac.compare_digest(base64.b64decode(_parts(answer).get("v", "")), signature):
        raise Denied("the server does not know the password")


def _proof(algorithm: str, salted: bytes, spoken: bytes) -> bytes:
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    stored_key = hashlib.new(algorithm, client_key).digest()
    signature = hmac.digest(stored_key, spoken, algorithm)
    return bytes(a ^ b for a, b in zip(client_key, signature, strict=True))


def _parts(token: bytes) -> dict[str, str]:
    pairs = (part.partition("=") for part in token.decode().split(","))
    return {name: value for name, _, value in pairs}
