"""Requests that were refused: counted by API and error, and logged at debug."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from stratamq.wire.kafka.protocol import APIS, ErrorCode

logger = logging.getLogger(__name__)

UNKNOWN = "unknown"


class Refusals:
    """One for a front. A request counts once for each error that its answer has, and once if its
    connection was closed instead: then the code is the one that Kafka has for such a request."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._strangers = 0

    def snapshot(self) -> Mapping[tuple[str, str], int]:
        """How many requests of an API were refused with an error, since the start; both by the
        names that Kafka gives them."""
        return dict(self._counts)

    def count(self, api_key: int, codes: Iterable[int], **about: object) -> None:
        """`about` is what to show of the request and of the client."""
        api = APIS[api_key].name if api_key in APIS else UNKNOWN
        errors = sorted({_name(code) for code in codes})
        for error in errors:
            self._counts[api, error] += 1
        if logger.isEnabledFor(logging.DEBUG):
            fields = {**about, "api": api, "error": ",".join(errors)}
            logger.debug("request refused", extra={"fields": fields})

    def failed(self, api_key: int, **about: object) -> None:
        """A handler failed: our fault. Called while the exception is handled. The first, tenth,
        hundredth, ... of an API is logged with its trace: a client that found how to cause one must
        not be able to fill the disk with them."""
        self.count(api_key, [ErrorCode.UNKNOWN_SERVER_ERROR], **about)
        api = APIS[api_key].name
        count = self._counts[api, ErrorCode.UNKNOWN_SERVER_ERROR.name]
        level = logging.ERROR if str(count).strip("0") == "1" else logging.DEBUG
        fields = {**about, "api": api, "count": count}
        logger.log(level, "request failed", exc_info=True, extra={"fields": fields})

    def another_protocol(self, reason: str, host: str) -> None:
        """Somebody's mistake, which they look for in our log. As seldom as `failed`."""
        self._strangers += 1
        if str(self._strangers).strip("0") == "1":
            fields = {"host": host, "count": self._strangers}
            logger.warning("%s", reason, extra={"fields": fields})


def _name(code: int) -> str:
    known = ErrorCode._value2member_map_.get(code)
    return str(code) if known is None else known.name
