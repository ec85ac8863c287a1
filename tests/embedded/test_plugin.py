"""`stratamq.testing`: the fixture that gives tests a real node."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import stratamq
from stratamq.testing import stratamq_node, stratamq_node_settings

__all__ = ["stratamq_node", "stratamq_node_settings"]  # fixtures, also where the plugin is not on

START_S_MAX = 0.3


def test_the_fixture_is_a_node_of_its_own(stratamq_node: stratamq.Node) -> None:
    assert stratamq_node.topics() == []
    orders = stratamq_node.create_topic("orders", storage="memory")
    assert orders.produce("2 coffees") == (0, 0)


def test_the_next_one_is_empty_again(stratamq_node: stratamq.Node) -> None:
    assert stratamq_node.topics() == []


def test_it_starts_in_less_than_a_third_of_a_second(tmp_path: Path) -> None:
    """The best of five: other programs on the machine are not the node's doing."""
    times = []
    for number in range(5):
        start = time.perf_counter()
        node = stratamq.open(tmp_path / str(number))
        times.append(time.perf_counter() - start)
        node.close()
    assert min(times) < START_S_MAX


def test_settings_can_be_chosen(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def stratamq_node_settings():
            return {"topic_storage_type": "EngineMemory"}

        def test_it(stratamq_node):
            assert stratamq_node.create_topic("t").storage == "EngineMemory"
        """
    )
    result = pytester.runpytest_subprocess("-p", "stratamq.testing", "-p", "no:randomly")
    result.assert_outcomes(passed=1)
