"""Authentication, and SCRAM credentials."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    array,
    request,
    response,
    struct,
    wire,
)


@request(key=17, versions="0-1", flexible="none")
class SaslHandshakeRequest:
    """Choose a mechanism. Version 0 is followed by tokens without frames, which is not served."""

    mechanism: str = wire(STRING)


@response(key=17, versions="0-1", flexible="none")
class SaslHandshakeResponse:
    """The mechanisms there are."""

    error_code: int = wire(INT16, default=0)
    mechanisms: Sequence[str] = wire(array(STRING))


@request(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """A token of the chosen mechanism."""

    auth_bytes: bytes = wire(BYTES, secret=True)


@response(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """The mechanism's answer; with a lifetime, the client comes again in time."""

    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    auth_bytes: bytes = wire(BYTES, secret=True)
    session_lifetime_ms: int = wire(INT64, versions="1+", default=0, ignorable=True)


@struct
class ScramUserName:
    name: str = wire(STRING)


@request(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    """Null means all users."""

    users: Sequence[ScramUserName] | None = wire(array(ScramUserName), nullable=True)


@struct
class ScramCredentialInfo:
    mechanism: int = wire(INT8)
    iterations: int = wire(INT32)


@struct
class DescribeUserScramCredentialsResult:
    user: str = wire(STRING)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    credential_infos: Sequence[ScramCredentialInfo] = wire(array(ScramCredentialInfo))


@response(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    """Mechanisms and iterations; never a secret."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    results: Sequence[DescribeUserScramCredentialsResult] = wire(
        array(DescribeUserScramCredentialsResult)
    )


@struct
class ScramCredentialDeletion:
    name: str = wire(STRING)
    mechanism: int = wire(INT8)


@struct
class ScramCredentialUpsertion:
    name: str = wire(STRING)
    mechanism: int = wire(INT8)
    iterations: int = wire(INT32)
    salt: bytes = wire(BYTES, secret=True)
    salted_password: bytes = wire(BYTES, secret=True)


@request(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    """Delete or set credentials, salted by the client."""

    deletions: Sequence[ScramCredentialDeletion] = wire(array(ScramCredentialDeletion))
    upsertions: Sequence[ScramCredentialUpsertion] = wire(array(ScramCredentialUpsertion))


@struct
class AlterUserScramCredentialsResult:
    user: str = wire(STRING)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)


@response(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    """One error code per user."""

    throttle_time_ms: int = wire(INT32, default=0)
    results: Sequence[AlterUserScramCredentialsResult] = wire(
        array(AlterUserScramCredentialsResult)
    )
