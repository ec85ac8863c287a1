"""Where a front listens."""

from __future__ import annotations

from typing import NamedTuple


class Address(NamedTuple):
    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}={self.host}:{self.port}"
