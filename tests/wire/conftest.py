"""Hypothesis without a stop-watch: a busy machine is not a failed test."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
