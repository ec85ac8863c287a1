"""When a record's time is over."""

from __future__ import annotations

from typing import NamedTuple

from stratamq.model.record import TTL_HEADER, Record
from stratamq.model.topic import TopicConfig

TTL_DIGITS_MAX = 15
"""Longer numbers are no milliseconds anybody meant, and parsing them would cost time."""


class Expiry(NamedTuple):
    """The rule of one topic at one moment. See the topic config `record.ttl.ms`."""

    default_ttl_ms: int
    now_ms: int

    def __call__(self, record: Record) -> bool:
        """Whether the record has expired."""
        if record.timestamp < 0:
            return False
        ttl_ms = self.default_ttl_ms or None
        if record.headers:
            ttl_ms = own_ttl_ms(record, ttl_ms)
        return ttl_ms is not None and self.now_ms - record.timestamp > ttl_ms


def expiry_of(config: TopicConfig, now_ms: int) -> Expiry | None:
    """None when nothing expires, so that readers need not look into records at all."""
    ttl_ms = config.number("record.ttl.ms")
    return Expiry(ttl_ms, now_ms) if ttl_ms >= 0 else None


def own_ttl_ms(record: Record, default: int | None) -> int | None:
    """The record's own time to live. A header that is no number is as good as none."""
    for name, value in record.headers:
        if name == TTL_HEADER and value and len(value) <= TTL_DIGITS_MAX and value.isdigit():
            return int(value)
    return default
