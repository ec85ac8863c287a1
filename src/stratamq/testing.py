"""A pytest plugin: the fixture `stratamq_node` is a real node in a folder of its own.

    def test_orders(stratamq_node):
        orders = stratamq_node.create_topic("orders", storage="memory")
        assert orders.produce("2 coffees") == (0, 0)

Nothing is imported before a test asks for it. Override `stratamq_node_settings` to start
the node with other settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stratamq.node.blocking import Node


@pytest.fixture
def stratamq_node_settings() -> dict[str, object]:
    """Keyword arguments for `stratamq.open`. Two writers are plenty for a test."""
    return {"io_workers": 2, "reader_threads": 2}


@pytest.fixture
def stratamq_node(
    tmp_path_factory: pytest.TempPathFactory, stratamq_node_settings: dict[str, object]
) -> Iterator[Node]:
    """A running node, empty; closed after the test."""
    from stratamq.node.blocking import Node

    with Node(tmp_path_factory.mktemp("stratamq"), **stratamq_node_settings) as node:  # type: ignore[arg-type]
        yield node
