"""Numbers of bytes, for people."""

from __future__ import annotations

UNITS = ("B", "KB", "MB", "GB")


def size(count: float) -> str:
    """`1.5 KB`: thousands, as disks are sold."""
    for unit in UNITS[:-1]:
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} {UNITS[-1]}"
