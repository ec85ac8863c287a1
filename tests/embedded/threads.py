"""Who is still there after a test."""

from __future__ import annotations

import threading
from collections.abc import Collection


def left_by(before: Collection[threading.Thread], *words: str) -> list[str]:
    """Threads with these words in their names that were not there before."""
    new = [thread for thread in threading.enumerate() if thread not in before]
    return [one.name for one in new if any(word in one.name for word in words)]
