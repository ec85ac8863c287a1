"""Names of options, as users write them; Spark hands them over in lower case."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

from stratamq.client.options import SETTINGS
from stratamq.model.errors import InvalidConfig
from stratamq.spark.local import servers_for

FORMAT = "stratamq"

COMMON = ("servers", "kafka.bootstrap.servers", "path", "topic", *SETTINGS)
READING = (
    "subscribe",
    "subscribePattern",
    "columns",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "minPartitions",
    "maxBytesPerPartition",
    "isolation",
    "failOnDataLoss",
    "tag",
    "key",
    "partitions",
    "pushFilters",
    "fetchBytes",
)
STREAMING = (
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
)
WRITING = (
    "checkpointLocation",
    "transactionTimeoutMs",
    "transactionalIdPrefix",
    "compression",
    "failOnDataLoss",
)
SPARKS_OWN = ("queryName",)
"""What Spark itself may add."""


def check_names(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """InvalidConfig for the first name that nobody knows, with the nearest one that is known."""
    by_lower = {name.lower(): name for name in (*known, *SPARKS_OWN)}
    for name in given:
        if name.lower() in by_lower:
            continue
        near = difflib.get_close_matches(name.lower(), by_lower, n=1)
        hint = f"; did you mean {by_lower[near[0]]!r}?" if near else ""
        raise InvalidConfig(f"{what} has no option {name!r}{hint}")


def number(options: Mapping[str, str], name: str, default: int | None = None) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise InvalidConfig(f"{name} must be a whole number of at least 1, not {text!r}")
    return int(text)


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise InvalidConfig(f"{name} must be true or false, not {text!r}")
    return text == "true"


def choice(options: Mapping[str, str], name: str, default: str, known: Iterable[str]) -> str:
    text = options.get(name.lower(), default).lower()
    if text not in known:
        raise InvalidConfig(f"{name} must be one of {', '.join(known)}, not {text!r}")
    return text


def servers(options: Mapping[str, str]) -> str:
    """`host:port,...`; for a `path`, of a node that is started on it."""
    found = options.get("servers") or options.get("kafka.bootstrap.servers")
    if found:
        return found
    if "path" in options:
        return servers_for(Path(options["path"]))
    raise InvalidConfig("the option 'servers' is missing: host:port of one or more nodes")
