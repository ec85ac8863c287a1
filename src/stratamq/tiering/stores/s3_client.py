"""The S3 client: botocore's, told to try once, to wait no longer than we do, and to say little."""

from __future__ import annotations

import logging
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from stratamq.model.errors import InvalidConfig
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
        return session.create_client(
            "s3",
            region_name=region,
            endpoint_url=options.s3_endpoint or None,
            config=_config(options),
        )
    except (BotoCoreError, ValueError) as error:
        raise InvalidConfig(f"s3: {error}") from None


def _config(options: StoreOptions) -> Config:
    limits = options.limits
    return Config(
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
    )
