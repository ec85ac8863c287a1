"""SASL on a connection: handshake, tokens, and again when the session has lasted long enough.

    state      request         next
    NEW        handshake       CHOSEN, if the mechanism is offered
    CHOSEN     authenticate    DONE; with SCRAM by way of CHALLENGED; FAILED otherwise
    DONE       handshake       CHOSEN again; the old name counts until the new one is proven

Every failure is answered the same: a client does not learn whether the name or the password was
wrong.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from enum import StrEnum
from typing import ClassVar

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.security.logins import FailedLogins
from stratamq.broker.kafka.security.scram import (
    AuthenticationFailed,
    ScramExchange,
    is_password,
    read_first,
    read_plain,
    unknown_user_credential,
)
from stratamq.meta.access import Credential, Mechanism
from stratamq.model.dataclass import dataclass
from stratamq.model.entropy import Entropy
from stratamq.model.errors import InvalidConfig
from stratamq.wire.kafka.protocol import ErrorCode, Served, Versions
from stratamq.wire.kafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *Mechanism)
HASHES_AT_ONCE = 2
"""Passwords that are hashed at the same time, in threads that other work needs too. When the limit
is reached, the next client waits."""

NONCE_BYTES = 24
FAILED = "Authentication failed."

Find = Callable[[str, Mechanism], Credential | None]


class SaslState(StrEnum):
    NEW = "new"
    CHOSEN = "chosen"
    CHALLENGED = "challenged"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslOptions:
    mechanisms: tuple[str, ...]
    iterations: int = 4096
    """Reported for users who do not exist."""

    session_ms: int = 0
    """How long a name counts before it has to be proven again; 0: for good."""

    failure_delay_s: float = 0.1
    """How much later a wrong password is answered."""


class Sasl:
    """The server's `Security`: one per listener."""

    served: ClassVar[Served] = {17: Versions(1, 1), 36: Versions(0, 2)}

    def __init__(
        self,
        options: SaslOptions,
        find: Find,
        secret: bytes,
        logins: FailedLogins,
        entropy: Entropy = os.urandom,
    ) -> None:
        self.options, self.logins, self.entropy = options, logins, entropy
        self._find, self._secret = find, secret
        self._hashing = asyncio.Semaphore(HASHES_AT_ONCE)

    def authenticator(self, host: str, certified: str | None) -> SaslConnection:
        return SaslConnection(self, host)

    def credential(self, user: str, mechanism: Mechanism) -> Credential:
        """The user's, or one that no password fits."""
        return self._find(user, mechanism) or unknown_user_credential(
            self._secret, user, mechanism, self.options.iterations, self.entropy
        )

    async def is_password(self, user: str, password: bytes) -> bool:
        known = (one for one in Mechanism if self._find(user, one) is not None)
        credential = self.credential(user, next(known, Mechanism.SHA_256))
        async with self._hashing:
            return await asyncio.to_thread(is_password, credential, password)


class SaslConnection:
    """The server's `Authenticator`: one per connection. Requests come one at a time."""

    def __init__(self, sasl: Sasl, host: str) -> None:
        self._sasl, self._host = sasl, host
        self._state = SaslState.NEW
        self._mechanism = ""
        self._exchange: ScramExchange | None = None
        self._user: str | None = None
        self._claimed: str | None = None
        """The name that the client gave last."""
        self._ends_at = float("inf")
        self._loop = asyncio.get_running_loop()

    @property
    def principal(self) -> str | None:
        """None before it is proven, and when that was too long ago."""
        if self._user is None or self._loop.time() >= self._ends_at:
            return None
        return f"User:{self._user}"

    @property
    def failed(self) -> bool:
        return self._state is SaslState.FAILED

    async def answer(self, request: object, caller: Caller) -> object:
        if isinstance(request, SaslHandshakeRequest):
            return self._handshake(request)
        assert isinstance(request, SaslAuthenticateRequest), "the server sends no other"
        return await self._authenticate(request)

    # -- handshake -----------------------------------------------------------------------------

    def _handshake(self, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        offered = self._sasl.options.mechanisms
        code = ErrorCode.NONE
        if self._state not in (SaslState.NEW, SaslState.DONE):
            code = ErrorCode.ILLEGAL_SASL_STATE
        elif request.mechanism not in offered:
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._mechanism = request.mechanism
        self._state = SaslState.FAILED if code else SaslState.CHOSEN
        if code:
            offer = f"the mechanisms are {', '.join(offered)}"
            unexpected = code is ErrorCode.ILLEGAL_SASL_STATE
            self._failed("an unexpected handshake" if unexpected else offer)
        return SaslHandshakeResponse(error_code=code, mechanisms=list(offered))

    # -- tokens --------------------------------------------------------------------------------

    async def _authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        if self._state not in (SaslState.CHOSEN, SaslState.CHALLENGED):
            self._state, reason = SaslState.FAILED, "a token without a handshake"
            self._failed(reason)
            return _refused_token(ErrorCode.ILLEGAL_SASL_STATE, reason)
        try:
            token = await self._step(bytes(request.auth_bytes))
        except AuthenticationFailed as error:
            self._failed(str(error))
            self._state, self._exchange = SaslState.FAILED, None
            await asyncio.sleep(self._sasl.options.failure_delay_s)
            return _refused_token(ErrorCode.SASL_AUTHENTICATION_FAILED, FAILED)
        session_ms = self._sasl.options.session_ms if self._is_done() else 0
        return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=session_ms)

    def _failed(self, reason: str) -> None:
        self._sasl.logins.failed(self._host, self._mechanism, reason, self._claimed)

    def _is_done(self) -> bool:
        return self._state is SaslState.DONE

    async def _step(self, token: bytes) -> bytes:
        if self._state is SaslState.CHALLENGED:
            assert self._exchange is not None, "a challenge has an exchange"
            answer = self._exchange.finish(token)
            self._prove(self._exchange.first.user)
            return answer
        if self._mechanism == PLAIN:
            user, password = read_plain(token)
            self._claimed = user
            if not await self._sasl.is_password(user, password):
                raise AuthenticationFailed("wrong password, or no such user")
            self._prove(user)
            return b""
        first = read_first(token)
        self._claimed = first.user
        nonce = first.nonce + self._sasl.entropy(NONCE_BYTES).hex()
        credential = self._sasl.credential(first.user, Mechanism(self._mechanism))
        self._exchange = ScramExchange(first, nonce, credential)
        self._state = SaslState.CHALLENGED
        return self._exchange.server_first.encode()

    def _prove(self, user: str) -> None:
        """A connection keeps its name: what was started under one does not end under another."""
        if self.failed or self._user not in (None, user):
            raise AuthenticationFailed(f"the connection is one of {self._user!r}")
        session_ms = self._sasl.options.session_ms
        self._user, self._state, self._exchange = user, SaslState.DONE, None
        if session_ms:
            self._ends_at = self._loop.time() + session_ms / 1000


def _refused_token(code: ErrorCode, text: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=text, auth_bytes=b"")


def mechanisms_of(text: str) -> tuple[str, ...]:
    """From `sasl.enabled.mechanisms`."""
    named = tuple(one.strip().upper() for one in text.split(",") if one.strip())
    for one in named:
        if one not in MECHANISMS:
            offered = ", ".join(MECHANISMS)
            raise InvalidConfig(f"sasl.enabled.mechanisms: {one!r} is not one of {offered}")
    return named
