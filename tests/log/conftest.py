from __future__ import annotations

import pytest

from stratamq.log import sidecar


@pytest.fixture
def dense_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index point every three records, so that small logs have many."""
    monkeypatch.setattr(sidecar, "POINT_EVERY_RECORDS", 3)
