"""What a query says about its source. Everything is checked before anything is asked of a node."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stratamq.client import ClientOptions, options_of
from stratamq.client.options import SETTINGS
from stratamq.model.errors import InvalidConfig
from stratamq.spark.failures import Losses
from stratamq.spark.local import servers_for
from stratamq.spark.positions import Positions, positions_of

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
    """Raise InvalidConfig for the first unknown name, with the nearest known one."""
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


PARTITION_BYTES = 64 << 20
FETCH_BYTES = 2 << 20
"""Enough to be worth asking for, and so little that it fits what lies between a worker and its JVM:
both are at work at the same time."""

ISOLATIONS = ("read_committed", "read_uncommitted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Topics by name, or all whose whole name matches."""

    names: tuple[str, ...] = ()
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    client: ClientOptions
    topics: Subscription
    starting: Positions
    ending: Positions
    committed: bool = True
    losses: Losses
    partitions_min: int | None = None
    partition_bytes_max: int = PARTITION_BYTES
    fetch_bytes: int = FETCH_BYTES
    tag: bytes | None = None
    key: bytes | None = None
    partitions: tuple[int, ...] | None = None
    push_filters: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerLimits:
    """How much one micro-batch may hold, and how little it waits for. None: no limit."""

    offsets_max: int | None = None
    bytes_max: int | None = None
    offsets_min: int | None = None
    delay_ms_max: int = 15 * 60_000


def client_options(options: Mapping[str, str]) -> ClientOptions:
    settings = {name: options[name] for name in SETTINGS if name in options}
    return options_of(servers(options), {"client.id": "stratamq-spark", **settings})


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """InvalidConfig says which option is wrong, and how."""
    known = (*COMMON, *READING, *(STREAMING if streaming else ()))
    check_names(options, known, "a stream" if streaming else "a read")
    if streaming:
        for name in READING:
            if name.startswith("ending") and name.lower() in options:
                raise InvalidConfig(f"{name} is for batches: a stream has no end")
    tag, key = options.get("tag"), options.get("key")
    return ReadOptions(
        client=client_options(options),
        topics=_subscription(options),
        starting=positions_of(options, "starting", "latest" if streaming else "earliest"),
        ending=positions_of(options, "ending", "latest"),
        committed=choice(options, "isolation", ISOLATIONS[0], ISOLATIONS) == ISOLATIONS[0],
        losses=Losses(fatal=flag(options, "failOnDataLoss", True)),
        partitions_min=number(options, "minPartitions"),
        partition_bytes_max=number(options, "maxBytesPerPartition") or PARTITION_BYTES,
        fetch_bytes=number(options, "fetchBytes") or FETCH_BYTES,
        tag=None if tag is None else tag.encode(),
        key=None if key is None else key.encode(),
        partitions=_partitions(options.get("partitions")),
        push_filters=flag(options, "pushFilters", False),
    )


def trigger_limits(options: Mapping[str, str]) -> TriggerLimits:
    text = options.get("maxtriggerdelay", "15m")
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]+)\s*", text.lower())
    if found is None or found[2] not in _UNITS_MS:
        raise InvalidConfig(f"maxTriggerDelay must be like 500ms, 30s, 15m or 1h, not {text!r}")
    limits = TriggerLimits(
        offsets_max=number(options, "maxOffsetsPerTrigger"),
        bytes_max=number(options, "maxBytesPerTrigger"),
        offsets_min=number(options, "minOffsetsPerTrigger"),
        delay_ms_max=(int(found[1]) * _UNITS_MS[found[2]]),
    )
    least, most = limits.offsets_min, limits.offsets_max
    if least is not None and most is not None and least > most:
        raise InvalidConfig("minOffsetsPerTrigger must not be over maxOffsetsPerTrigger")
    return limits


def _subscription(options: Mapping[str, str]) -> Subscription:
    ways = [name for name in ("topic", "subscribe", "subscribePattern") if name.lower() in options]
    if len(ways) != 1:
        raise InvalidConfig(
            "exactly one of the options 'topic', 'subscribe' and 'subscribePattern' is needed"
            + (f", not {' and '.join(ways)}" if ways else "")
        )
    text = options[ways[0].lower()]
    if ways[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise InvalidConfig(f"subscribePattern: {text!r} is no pattern ({error})") from None
        return Subscription(pattern=text)
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InvalidConfig(f"{ways[0]} names no topic")
    return Subscription(names=names)


def _partitions(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise InvalidConfig(f"partitions must be numbers with commas, not {text!r}")
    return tuple(int(part) for part in parts)


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}
