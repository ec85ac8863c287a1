"""Passwords as they are kept: salted, hashed many times, of no use to whoever steals them. Pure.

Names are those of RFC 5802. Passwords are taken as they are, without SASLprep, as Kafka does.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import NamedTuple

from stratamq.meta.access import Credential, Mechanism
from stratamq.model.entropy import Entropy

SALT_BYTES = 24

HASHES = {Mechanism.SHA_256: "sha256", Mechanism.SHA_512: "sha512"}
SALTED_BYTES = {Mechanism.SHA_256: 32, Mechanism.SHA_512: 64}


class Keys(NamedTuple):
    """What the server remembers: it can check a proof, and cannot make one."""

    stored_key: bytes
    server_key: bytes


def salted_password(mechanism: Mechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Slow on purpose: milliseconds, in which the interpreter's lock is free."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password, salt, iterations)


def keys_of(mechanism: Mechanism, salted: bytes) -> Keys:
    client_key = keyed(mechanism, salted, b"Client Key")
    return Keys(hashed(mechanism, client_key), keyed(mechanism, salted, b"Server Key"))


def new_credential(
    user: str, mechanism: Mechanism, password: bytes, iterations: int, salt: bytes | None = None
) -> Credential:
    salt = salt or os.urandom(SALT_BYTES)
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of(user, mechanism, iterations, salt, salted)


def credential_of(
    user: str, mechanism: Mechanism, iterations: int, salt: bytes, salted: bytes
) -> Credential:
    """From a password that somebody else has salted."""
    keys = keys_of(mechanism, salted)
    return Credential(
        user=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt.hex(),
        stored_key=keys.stored_key.hex(),
        server_key=keys.server_key.hex(),
    )


def nobodys_credential(
    secret: bytes, user: str, mechanism: Mechanism, iterations: int, entropy: Entropy = os.urandom
) -> Credential:
    """For users who do not exist: always the same for the same name, so that asking twice tells
    nothing, and fulfilled by no password."""
    name = f"{mechanism}\0{user}".encode("utf-8", "surrogatepass")
    noise = hmac.digest(secret, name, "sha512")
    return Credential(
        user=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=noise[:SALT_BYTES].hex(),
        stored_key=entropy(SALTED_BYTES[mechanism]).hex(),
        server_key=entropy(SALTED_BYTES[mechanism]).hex(),
    )


def is_password(credential: Credential, password: bytes) -> bool:
    """Slow; see `salted_password`. Takes the same time whether it is or not."""
    salt = bytes.fromhex(credential.salt)
    salted = salted_password(credential.mechanism, password, salt, credential.iterations)
    stored_key = keys_of(credential.mechanism, salted).stored_key
    return hmac.compare_digest(stored_key, bytes.fromhex(credential.stored_key))


def keyed(mechanism: Mechanism, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, HASHES[mechanism])


def hashed(mechanism: Mechanism, data: bytes) -> bytes:
    return hashlib.new(HASHES[mechanism], data).digest()
