"""Who is at the other end of a connection.

The mechanisms come in by `Security`. Until a connection's `Authenticator` knows its peer, only
ApiVersions and the two SASL requests are answered on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stratamq.broker.kafka.contract import ANONYMOUS, Caller
from stratamq.broker.kafka.security.logins import CERTIFICATE, FailedLogins
from stratamq.wire.kafka.protocol import Served
from stratamq.wire.kafka.protocol.messages.api_versions import ApiVersionsRequest
from stratamq.wire.kafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)

SASL_REQUESTS: frozenset[type] = frozenset({SaslHandshakeRequest, SaslAuthenticateRequest})
BEFORE_AUTHENTICATION: frozenset[type] = SASL_REQUESTS | {ApiVersionsRequest}


class Authenticator(Protocol):
    """One per connection. Requests come to it one at a time."""

    @property
    def principal(self) -> str | None:
        """Who the peer is; None while that is not known."""

    @property
    def failed(self) -> bool:
        """The peer is not who it claims to be: close the connection after the answer."""

    async def answer(self, request: object, caller: Caller) -> object:
        """The response to a SaslHandshakeRequest or SaslAuthenticateRequest."""


class Security(Protocol):
    """One per listener."""

    @property
    def served(self) -> Served:
        """The SASL APIs that it answers, to be advertised with the others."""

    def authenticator(self, host: str, certified: str | None) -> Authenticator:
        """For a new connection; `certified` is the principal of its TLS certificate, if any."""


class AsCertified:
    """The peer is who its certificate says, or anonymous.

    A peer whose certificate no rule maps to a principal is never served.
    """

    failed = False

    def __init__(self, principal: str | None) -> None:
        self.principal = principal

    async def answer(self, request: object, caller: Caller) -> object:
        raise AssertionError("SASL is not served, so no such request is ever decoded")


class NoSasl:
    """A listener without authentication beside TLS; `principal_of` maps certified names."""

    def __init__(
        self,
        principal_of: Callable[[str], str | None] | None = None,
        logins: FailedLogins | None = None,
    ) -> None:
        self._principal_of, self._logins = principal_of, logins or FailedLogins()

    @property
    def served(self) -> Served:
        return {}

    def authenticator(self, host: str, certified: str | None) -> Authenticator:
        if certified is None or self._principal_of is None:
            return AsCertified(certified or ANONYMOUS)
        principal = self._principal_of(certified)
        if principal is None:
            reason = "ssl.principal.mapping.rules has no name for it"
            self._logins.failed(host, CERTIFICATE, reason, certified.removeprefix("User:"))
        return AsCertified(principal)
