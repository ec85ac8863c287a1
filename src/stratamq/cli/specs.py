"""What people type for offsets, times and pairs, as values. Pure."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from stratamq.cli.failing import UsageError

EARLIEST, LATEST = "earliest", "latest"
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"-(\d+)([smhd])")


class OffsetSpec(NamedTuple):
    """A place in a log: counted from offset 0, or back from its end; or its start or end."""

    name: str | None = None
    offset: int = 0

    def within(self, start: int, end: int) -> int:
        """As an offset of a log that begins and ends there."""
        if self.name == EARLIEST:
            return start
        if self.name == LATEST:
            return end
        return max(start, end + self.offset) if self.offset < 0 else self.offset


def offset_spec(text: str) -> OffsetSpec:
    """`earliest`, `latest`, `42`, or `-10` for the last ten of each partition."""
    if text in (EARLIEST, LATEST):
        return OffsetSpec(text)
    if re.fullmatch(r"-?\d+", text, re.ASCII):
        return OffsetSpec(LATEST) if re.fullmatch("-0+", text) else OffsetSpec(None, int(text))
    raise UsageError(f"offset {text!r} is not {EARLIEST}, {LATEST}, a number, or -N for the last N")


def time_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970 of `2026-11-16T12:00`, `-15m`, `now`, or a number of them.

    A time without a zone is UTC, as in Kafka's own tools.
    """
    if text == "now":
        return now_ms
    if found := _AGO.fullmatch(text):
        return now_ms - int(found[1]) * _UNITS_MS[found[2]]
    if re.fullmatch(r"\d{9,}", text, re.ASCII):
        return int(text)
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"time {text!r} is not like 2026-11-16T12:00, 2026-11-16T12:00+01:00, -15m (s, m, h, "
            "d ago), now, or milliseconds since 1970"
        ) from None
    if read.tzinfo is None:
        read = read.replace(tzinfo=UTC)
    return round(read.timestamp() * 1000)


def time_text(timestamp_ms: int) -> str:
    """UTC, to the millisecond; what no calendar has is shown as the number it is."""
    try:
        read = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return read.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def pairs(given: Iterable[str], flag: str) -> dict[str, str]:
    """`name=value` each, the last one wins."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{flag} takes name=value, not {text!r}")
        found[name] = value
    return found


def key_of(key: str | None, key_base64: str | None) -> bytes | None:
    """The bytes of a key. A shell may give bytes that are not UTF-8: they are taken as they are."""
    if key is not None and key_base64 is not None:
        raise UsageError("--key and --key-base64 exclude each other")
    if key_base64 is None:
        return None if key is None else os.fsencode(key)
    try:
        return base64.b64decode(key_base64, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(f"--key-base64 {key_base64!r} is not base64") from None
