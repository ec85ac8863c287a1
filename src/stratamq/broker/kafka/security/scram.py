"""The server's side of SCRAM (RFC 5802, RFC 7677), and PLAIN (RFC 4616). Pure: tokens in, tokens
out.

    client-first   n,,n=user,r=nonce
    server-first   r=nonce and ours,s=salt,i=iterations
    client-final   c=biws,r=both nonces,p=proof
    server-final   v=signature
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from dataclasses import field
from typing import NamedTuple

from stratamq.broker.kafka.security.passwords import hashed, keyed
from stratamq.meta.access import Credential
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import StrataError

TOKEN_BYTES_MAX = 8192
"""More than any honest token has; who is at the other end is not known yet."""

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


class Unproven(StrataError):
    """The peer has not shown that it is who it says. The words are for our log alone."""


class Plain(NamedTuple):
    user: str
    password: bytes

    def __repr__(self) -> str:
        return f"Plain(user={self.user!r})"


def read_plain(token: bytes) -> Plain:
    """User and password; acting for somebody else is not offered."""
    parts = _limited(token).split(b"\0")
    if len(parts) != 3:
        raise Unproven("a PLAIN token has three parts")
    authzid, user, password = parts
    if not user or not password or authzid not in (b"", user):
        raise Unproven("a PLAIN token without user or password, or for somebody else")
    return Plain(_text(user), password)


@dataclass(frozen=True, slots=True)
class ClientFirst:
    gs2: str
    bare: str
    user: str
    nonce: str


def read_first(token: bytes) -> ClientFirst:
    found = _FIRST.fullmatch(_text(_limited(token)))
    if found is None:
        raise Unproven("a SCRAM token that cannot be read")
    if found["extensions"]:
        raise Unproven("SCRAM extensions, such as delegation tokens, are not offered")
    user = _unescaped(found["user"])
    if found["authzid"] is not None and _unescaped(found["authzid"]) != user:
        raise Unproven("a SCRAM token for somebody else")
    return ClientFirst(found["gs2"], found["bare"], user, found["nonce"])


@dataclass(frozen=True, slots=True)
class Exchange:
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
        """The server-final message; Unproven when the proof is not one."""
        found = _FINAL.fullmatch(_text(_limited(token)))
        if found is None:
            raise Unproven("a SCRAM token that cannot be read")
        # Kafka looks at the end only, and librdkafka before 2.6.1 says its own half twice.
        ours = found["nonce"].endswith(self.nonce)
        if not ours or _decoded(found["binding"]) != self.first.gs2.encode():
            raise Unproven("a SCRAM token of another exchange")
        said = f"{self.first.bare},{self.server_first},{found['without_proof']}".encode()
        self._check_proof(said, _decoded(found["proof"]))
        mechanism, key = self.credential.mechanism, bytes.fromhex(self.credential.server_key)
        return b"v=" + base64.b64encode(keyed(mechanism, key, said))

    def _check_proof(self, said: bytes, proof: bytes) -> None:
        mechanism = self.credential.mechanism
        stored_key = bytes.fromhex(self.credential.stored_key)
        signature = keyed(mechanism, stored_key, said)
        if len(proof) != len(signature):
            raise Unproven("a proof of the wrong length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashed(mechanism, client_key), stored_key):
            raise Unproven("wrong password")


def _limited(token: bytes) -> bytes:
    if len(token) > TOKEN_BYTES_MAX:
        raise Unproven(f"a token of {len(token)} bytes")
    return token


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise Unproven("a token that is not UTF-8") from None


def _unescaped(name: str) -> str:
    if _ESCAPES.search(name):
        raise Unproven("a name that is not escaped")
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise Unproven("a value that is not base64") from None
