"""What may be done to a group, as a bit field of Kafka's operations."""

from __future__ import annotations

_READ, _DELETE, _DESCRIBE = 3, 6, 8

GROUP_OPERATIONS = 1 << _READ | 1 << _DELETE | 1 << _DESCRIBE
"""Told to whoever asks and may describe the group; what is enforced is the authorizer's to say."""
