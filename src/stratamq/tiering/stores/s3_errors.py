"""S3's answers and botocore's exceptions as our errors, by code and never by text.

Nothing of what the server wrote is repeated but its code: a proxy may write back what it was sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    MissingDependencyException,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    ReadTimeoutError,
    ResponseStreamingError,
    TokenRetrievalError,
)
from botocore.exceptions import ConnectionError as NoConnection
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from stratamq.model.errors import (
    CorruptObject,
    ObjectExists,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)

BY_CODE: dict[str, type[StoreError]] = {
    "NoSuchKey": ObjectNotFound,
    "NoSuchUpload": ObjectNotFound,
    "NoSuchBucket": StoreDenied,
    "PreconditionFailed": ObjectExists,
    "ConditionalRequestConflict": StoreUnavailable,  # two at once: S3 asks to try again
    "OperationAborted": StoreUnavailable,
    "RequestTimeout": StoreUnavailable,
    "IncompleteBody": StoreUnavailable,
    "SlowDown": StoreUnavailable,
    "BadDigest": CorruptObject,
    "InvalidDigest": CorruptObject,
    "XAmzContentSHA256Mismatch": CorruptObject,
    "XAmzContentChecksumMismatch": CorruptObject,
    "ExpiredToken": StoreDenied,
    "InvalidToken": StoreDenied,
    "AuthorizationHeaderMalformed": StoreDenied,  # the wrong region
    "PermanentRedirect": StoreDenied,
}

BY_STATUS: dict[int, type[StoreError]] = {
    401: StoreDenied,
    403: StoreDenied,
    404: ObjectNotFound,
    408: StoreUnavailable,
    412: ObjectExists,
    429: StoreUnavailable,
}

CREDENTIALS = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    NoAuthTokenError,
    TokenRetrievalError,
    ProfileNotFound,
    MissingDependencyException,
)
ON_THE_WAY = (
    NoConnection,
    HTTPClientError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
    ResponseParserError,
    HTTPError,
    OSError,
)


@contextmanager
def translated(what: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise _by_answer(what, error) from None
    except ON_THE_WAY as error:
        raise StoreUnavailable(f"{what}: {type(error).__name__}") from None
    except CREDENTIALS as error:
        raise StoreDenied(f"{what}: {type(error).__name__}") from None
    except BotoCoreError as error:
        raise StoreError(f"{what}: {type(error).__name__}") from None


def _by_answer(what: str, error: ClientError) -> StoreError:
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    kind = BY_CODE.get(code) or BY_STATUS.get(status)
    if kind is None:
        kind = StoreUnavailable if status >= 500 or status == 200 else StoreError
    return kind(f"{what}: {status} {code[:64]}".rstrip())
