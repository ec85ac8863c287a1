"""Memory for unpacked pages that is used again: new memory has to be found and cleared first."""

from __future__ import annotations

import threading

STEP_BYTES = 256 << 10
"""Sizes are rounded up to this, so that few are different."""

SPARE_BYTES_MAX = 64 << 20


class Buffers:
    """Lends buffers, from any thread. What is given back must not be used by anybody any more."""

    def __init__(self, spare_bytes_max: int = SPARE_BYTES_MAX) -> None:
        self._spare_bytes_max = spare_bytes_max
        self._lock = threading.Lock()
        self._spare: dict[int, list[bytearray]] = {}
        self._spare_bytes = 0

    def take(self, size: int) -> bytearray:
        """One of at least so many bytes, with anything in them; of at most twice as many, if it is
        spare."""
        rounded = -(-size // STEP_BYTES) * STEP_BYTES
        with self._lock:
            for length in sorted(self._spare):
                if rounded <= length <= 2 * rounded and self._spare[length]:
                    self._spare_bytes -= length
                    return self._spare[length].pop()
        return bytearray(rounded)

    def give(self, buffers: list[bytearray]) -> None:
        with self._lock:
            for buffer in buffers:
                if self._spare_bytes + len(buffer) <= self._spare_bytes_max:
                    self._spare.setdefault(len(buffer), []).append(buffer)
                    self._spare_bytes += len(buffer)
