"""ApiVersions: what is served, and nothing else; and the features of the cluster."""

from __future__ import annotations

import re

from stratamq.broker.kafka.admin.features import FEATURES_EPOCH, FINALIZED, SUPPORTED
from stratamq.broker.kafka.contract import Caller
from stratamq.wire.kafka.protocol import ErrorCode, Served, api_versions_response
from stratamq.wire.kafka.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)

_NAMES_SINCE = 3
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def answer(request: ApiVersionsRequest, caller: Caller, served: Served) -> ApiVersionsResponse:
    """From version 3 on clients say what they are, and one that cannot say it is refused."""
    named = _NAME.fullmatch(request.client_software_name) and _NAME.fullmatch(
        request.client_software_version
    )
    if caller.version >= _NAMES_SINCE and not named:
        return api_versions_response({}, error_code=ErrorCode.INVALID_REQUEST)
    return api_versions_response(
        served,
        supported_features=SUPPORTED,
        finalized_features=FINALIZED,
        finalized_features_epoch=FEATURES_EPOCH,
    )
