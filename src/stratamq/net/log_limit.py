"""A limit on the lines that clients can cause in the log: a flood of them must not fill a disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stratamq.model.dataclass import dataclass

KEYS_MAX = 100
"""Keys that are counted apart at the same time. Above: the others are counted together."""

OTHERS = "others"


@dataclass(slots=True)
class _Window:
    timer: asyncio.TimerHandle
    lines: int = 0


class LogLimit:
    """Admits `lines_max` lines in `window_s`, for each key such as an address.

    Lines above the limit are left out and counted. When the window ends, `report` gets the key and
    how many lines were left out, if any were. Belongs to the event loop.
    """

    def __init__(
        self, report: Callable[[str, int], None], *, lines_max: int = 10, window_s: float = 60.0
    ) -> None:
        self._report, self._lines_max, self._window_s = report, lines_max, window_s
        self._windows: dict[str, _Window] = {}

    def admits(self, key: str = "") -> bool:
        """Whether the caller may log one more line."""
        key = self.counted_as(key)
        window = self._windows.get(key)
        if window is None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._window_s, self._end, key)
            window = self._windows[key] = _Window(timer)
        window.lines += 1
        return window.lines <= self._lines_max

    def counted_as(self, key: str) -> str:
        """The key that a line is counted for now: its own, or OTHERS."""
        return key if key in self._windows or len(self._windows) < KEYS_MAX else OTHERS

    def close(self) -> None:
        """End all windows now, so that the log of a node that stops is complete."""
        for key in tuple(self._windows):
            self._end(key)

    def _end(self, key: str) -> None:
        window = self._windows.pop(key)
        window.timer.cancel()
        if window.lines > self._lines_max:
            self._report(key, window.lines - self._lines_max)
