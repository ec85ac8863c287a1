"""Passwords, the server's side of SCRAM (RFC 5802, RFC 7677), and PLAIN (RFC 4616). Pure: tokens
in, tokens out.

Passwords are stored salted and hashed many times, of no use to a thief. They are taken as they are,
without SASLprep, as Kafka does. Names are those of RFC 5802.

    client-first   n,,n=user,r=nonce
    server-first   r=nonce and ours,s=salt,i=iterations
    client-final   c=biws,r=both nonces,p=proof
    server-final   v=signature"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from dataclasses import field
from typing import NamedTuple

from stratamq.meta.access import Credential, Mechanism
from stratamq.model.dataclass import dataclass
from stratamq.model.entropy import Entropy
from stratamq.model.errors import StrataError

SALT_BYTES = 24

HASHES = {Mechanism.SHA_256: "sha256", Mechanism.SHA_512: "sha512"}
SALTED_BYTES = {Mechanism.SHA_256: 32, Mechanism.SHA_512: 64}


class ScramKeys(NamedTuple):
    """What the server stores: it can check a proof, and cannot make one."""

    stored_key: bytes
    server_key: bytes


def salted_password(mechanism: Mechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Slow on purpose: milliseconds, during which the GIL is released."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password, salt, iterations)


def keys_of(mechanism: Mechanism, salted: bytes) -> ScramKeys:
    client_key = keyed(mechanism, salted, b"Client Key")
    return ScramKeys(hashed(mechanism, client_key), keyed(mechanism, salted, b"Server Key"))


def new_credential(
    user: str, mechanism: Mechanism, password: bytes, iterations: int, salt: bytes | None = None
) -> Credential:
    salt = salt or os.urandom(SALT_BYTES)
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of(user, mechanism, iterations, salt, salted)


def credential_of(
    user: str, mechanism: Mechanism, iterations: int, salt: bytes, salted: bytes
) -> Credential:
    """From a password that the client has salted."""
    keys = keys_of(mechanism, salted)
    return Credential(
        user=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt.hex(),
        stored_key=keys.stored_key.hex(),
        server_key=keys.server_key.hex(),
    )


def unknown_user_credential(
    secret: bytes, user: str, mechanism: Mechanism, iterations: int, entropy: Entropy = os.urandom
) -> Credential:
    """For users who do not exist: always the same for the same name, so that asking twice reveals
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


TOKEN_BYTES_MAX = 8192
"""More than any honest token has. The client is not authenticated yet. Above: it is refused."""

_VALUE = r"[^,]+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_FIRST = re.compile(
    rf"(?P<gs2>[ny],(?:a=(?P<authzid>{_VALUE}))?,)"
    rf"(?P<bare>n=(?P<user>{_VALUE}),r=(?P<nonce>{_NONCE})(?P<extensions>(?:,[A-Za-z]+={_VALUE})*))"
)
_FINAL = re.compile(
    rf"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_NONCE})"
    rf"(?:,[A-Za-z]={_VALUE})*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_ESCAPES = re.compile(r"=(?!2C|3D)")


class AuthenticationFailed(StrataError):
    """The peer has not shown that it is who it says. The text is for our log alone."""


class PlainToken(NamedTuple):
    user: str
    password: bytes

    def __repr__(self) -> str:
        return f"PlainToken(user={self.user!r})"


def read_plain(token: bytes) -> PlainToken:
    """User and password; acting for another user is not offered."""
    parts = _limited(token).split(b"\0")
    if len(parts) != 3:
        raise AuthenticationFailed("a PLAIN token has three parts")
    authzid, user, password = parts
    if not user or not password or authzid not in (b"", user):
        raise AuthenticationFailed("a PLAIN token without user or password, or for another user")
    return PlainToken(_text(user), password)


@dataclass(frozen=True, slots=True)
class ClientFirst:
    gs2: str
    bare: str
    user: str
    nonce: str


def read_first(token: bytes) -> ClientFirst:
    found = _FIRST.fullmatch(_text(_limited(token)))
    if found is None:
        raise AuthenticationFailed("a SCRAM token that cannot be read")
    if found["extensions"]:
        raise AuthenticationFailed("SCRAM extensions, such as delegation tokens, are not offered")
    user = _unescaped(found["user"])
    if found["authzid"] is not None and _unescaped(found["authzid"]) != user:
        raise AuthenticationFailed("a SCRAM token for another user")
    return ClientFirst(found["gs2"], found["bare"], user, found["nonce"])


@dataclass(frozen=True, slots=True)
class ScramExchange:
    """After the first two messages."""

    first: ClientFirst
    nonce: str
    """Both halves: the client's and ours."""

    credential: Credential = field(repr=False)

    @property
    def server_first(self) -> str:
        salt = base64.b64encode(bytes.fromhex(self.credential.salt)).decode()
        return f"r={self.nonce},s={salt},i={self.credential.iterations}"

    def finish(self, token: bytes) -> bytes:
        """The server-final message; AuthenticationFailed when the proof is not one."""
        found = _FINAL.fullmatch(_text(_limited(token)))
        if found is None:
            raise AuthenticationFailed("a SCRAM token that cannot be read")
        # Kafka looks at the end only, and librdkafka before 2.6.1 says its own half twice.
        ours = found["nonce"].endswith(self.nonce)
        if not ours or _decoded(found["binding"]) != self.first.gs2.encode():
            raise AuthenticationFailed("a SCRAM token of another exchange")
        said = f"{self.first.bare},{self.server_first},{found['without_proof']}".encode()
        proof, mechanism = _decoded(found["proof"]), self.credential.mechanism
        stored_key = bytes.fromhex(self.credential.stored_key)
        signature = keyed(mechanism, stored_key, said)
        if len(proof) != len(signature):
            raise AuthenticationFailed("a proof of the wrong length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashed(mechanism, client_key), stored_key):
            raise AuthenticationFailed("wrong password, or no such user")
        server_key = bytes.fromhex(self.credential.server_key)
        return b"v=" + base64.b64encode(keyed(mechanism, server_key, said))


def _limited(token: bytes) -> bytes:
    if len(token) > TOKEN_BYTES_MAX:
        raise AuthenticationFailed(f"a token of {len(token)} bytes")
    return token


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("a token that is not UTF-8") from None


def _unescaped(name: str) -> str:
    if _ESCAPES.search(name):
        raise AuthenticationFailed("a name that is not escaped")
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailed("a value that is not base64") from None
