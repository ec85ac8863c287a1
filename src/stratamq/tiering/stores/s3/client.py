"""botocore's S3 client, and its errors as ours.

The client tries once, waits no longer than the store's limits and logs little. Errors are mapped
by their code and never by their text; only the code is repeated in ours, because a proxy may write
back what it was sent.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import botocore.session
from botocore.config import Config
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
    InvalidConfig,
    ObjectExists,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from stratamq.tiering.stores.options import StoreOptions

DEFAULT_REGION = "us-east-1"
CHATTY = ("botocore", "urllib3")
"""At debug level these log whole requests, with session tokens and signatures in them."""


def make_client(options: StoreOptions) -> Any:
    """Credentials come from the environment, a profile, a file, the container or the machine, in
    AWS's own order; they stay inside botocore, which renews them too."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.INFO)
    session = botocore.session.Session(profile=options.s3_profile or None)
    if options.s3_credentials_file:
        session.set_config_variable("credentials_file", options.s3_credentials_file)
    try:
        region = options.s3_region or session.get_config_variable("region") or DEFAULT_REGION
        limits = options.limits
        return session.create_client(
            "s3",
            region_name=region,
            endpoint_url=options.s3_endpoint or None,
            config=Config(
                connect_timeout=limits.connect_timeout_ms / 1000,
                read_timeout=limits.timeout_ms / 1000,
                retries={"total_max_attempts": 1, "mode": "standard"},
                max_pool_connections=limits.uploads_max + limits.reads_max,
                signature_version="s3v4",
                s3={"addressing_style": "path" if options.s3_path_style else "auto"},
                # Not every store knows the newer checksum headers; ours go another way.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                user_agent_extra="stratamq",
            ),
        )
    except (BotoCoreError, ValueError) as error:
        raise InvalidConfig(f"s3: {error}") from None


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
