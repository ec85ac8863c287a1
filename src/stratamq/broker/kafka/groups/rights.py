"""What can be done to a group, as a bit field of Kafka's operations."""

from __future__ import annotations

from stratamq.model.access import OPERATIONS, ResourceKind

GROUP_OPERATIONS = sum(1 << operation for operation in OPERATIONS[ResourceKind.GROUP])
"""Told to whoever asks, until `security.guard` puts what the caller may do in its place."""
