from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.broker.groups.node_support import Node


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A node with topic `t` of four partitions."""
    made = Node(tmp_path / "data")
    await made.start()
    await made.services.topics.create("t", partitions=4)
    yield made
    await made.stop()
