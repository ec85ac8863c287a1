"""One real node for each module, and the commands that reach it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.tool import Tool
from tests.clients.node import Node, running


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    flags = ("--topic-flush", "os", "--log-level", "warning")
    with running(tmp_path_factory.mktemp("node"), *flags) as node:
        yield node
        assert node.end() == 0, node.logged()


@pytest.fixture(scope="module")
def tool(node: Node) -> Tool:
    return Tool({"STRATAMQ_SERVER": node.address})
