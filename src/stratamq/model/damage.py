"""Where damage in stored data is reported: one logger, and each finding once.

Every reader of a damaged range finds it again, and every request a shard that cannot be opened. The
log has one line for each all the same; a node also writes them to a file, for `stratamq doctor`.
"""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("stratamq.damage")

FINDINGS_MAX = 10_000
"""Findings that are remembered. When there are more, the oldest may be reported again."""

_reported: dict[str, None] = {}


def report_damage(text: str, key: str | None = None) -> None:
    """Log the finding, unless one with the same key was logged before; the text is its own key."""
    key = text if key is None else key
    if key in _reported:
        return
    if len(_reported) >= FINDINGS_MAX:
        del _reported[next(iter(_reported))]
    _reported[key] = None
    LOGGER.error("%s", text)


def findings_count() -> int:
    """How many are remembered."""
    return len(_reported)


def forget_reports() -> None:
    """A node starts: what it finds is reported again."""
    _reported.clear()
