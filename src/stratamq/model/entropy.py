"""Random bytes come in by this door, so that tests can repeat a run."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

Entropy = Callable[[int], bytes]
"""Returns that many bytes that cannot be guessed; `os.urandom` is one."""

UUID_BYTES = 16


def random_uuid(entropy: Entropy) -> UUID:
    return UUID(bytes=entropy(UUID_BYTES), version=4)
