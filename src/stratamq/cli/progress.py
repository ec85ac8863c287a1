"""How far long work is, on a terminal."""

from __future__ import annotations

import sys
import time

PROGRESS_S = 0.5


class ProgressLine:
    """A line of standard error that is replaced while the work goes on. Nothing is written where
    standard error is no terminal, or before the work has taken a moment."""

    def __init__(self, *, is_wanted: bool = True) -> None:
        self._is_shown = is_wanted and sys.stderr.isatty()
        self._next_s = time.monotonic() + PROGRESS_S
        self._was_shown = False

    def update(self, text: str) -> None:
        if self._is_shown and time.monotonic() >= self._next_s:
            self._next_s, self._was_shown = time.monotonic() + PROGRESS_S, True
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._was_shown:
            sys.stderr.write("\r\x1b[K")
