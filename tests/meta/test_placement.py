from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.meta.nodes import place_partitions, place_segment
from stratamq.meta.state import NodeLoad
from stratamq.model.errors import InvalidConfig
from stratamq.model.types import NodeId

node_sets = st.sets(st.integers(0, 40).map(NodeId), min_size=1, max_size=12)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[NodeId], dict[NodeId, NodeLoad], int]:
    """Live nodes in any order, some of them loaded, and a replica count that fits."""
    nodes = draw(node_sets)
    load = st.builds(NodeLoad, st.integers(0, 50), st.integers(0, 50))
    loads = draw(st.dictionaries(st.sampled_from(sorted(nodes)), load))
    replicas = draw(st.integers(1, len(nodes)))
    return draw(st.permutations(sorted(nodes))), loads, replicas


def spread(counts: list[int]) -> int:
    return max(counts) - min(counts)


@given(clusters(), st.integers(0, 30), st.integers(1, 60))
def test_replicas_are_on_distinct_live_nodes_and_follow_the_formula(
    cluster: tuple[list[NodeId], dict[NodeId, NodeLoad], int], first: int, count: int
) -> None:
    live, loads, replicas = cluster
    placed = place_partitions(live, loads, first=first, count=count, replicas=replicas)
    assert len(placed) == count
    nodes = sorted(live)
    shift = nodes.index(placed[0][0]) - first
    for i, chosen in enumerate(placed, start=first):
        assert len(set(chosen)) == replicas
        assert list(chosen) == [nodes[(i + j + shift) % len(nodes)] for j in range(replicas)]


@given(clusters(), st.integers(1, 60))
def test_the_leaders_of_one_topic_spread_evenly(
    cluster: tuple[list[NodeId], dict[NodeId, NodeLoad], int], count: int
) -> None:
    live, loads, replicas = cluster
    placed = place_partitions(live, loads, first=0, count=count, replicas=replicas)
    leaders = Counter(chosen[0] for chosen in placed)
    assert spread([leaders[node] for node in live]) <= 1


@given(node_sets, st.lists(st.just(1), max_size=40))
def test_small_topics_one_after_the_other_even_out(nodes: set[NodeId], topics: list[int]) -> None:
    """Without the shift, partition 0 of every topic would sit on the first node."""
    leaders: Counter[NodeId] = Counter()
    for count in topics:
        loads = {node: NodeLoad(leaders[node], leaders[node]) for node in nodes}
        for chosen in place_partitions(sorted(nodes), loads, first=0, count=count, replicas=1):
            leaders[chosen[0]] += 1
    assert spread([leaders[node] for node in nodes]) <= 1


@given(clusters())
def test_a_new_segment_goes_to_the_least_loaded(
    cluster: tuple[list[NodeId], dict[NodeId, NodeLoad], int],
) -> None:
    live, loads, replicas = cluster
    chosen = place_segment(live, loads, replicas=replicas)
    assert len(set(chosen)) == replicas

    def load(node: NodeId) -> NodeLoad:
        return loads.get(node, NodeLoad())

    left = [load(node).replicas for node in live if node not in chosen]
    assert max(load(node).replicas for node in chosen) <= min(left, default=1000)
    assert load(chosen[0]).leaders == min(load(node).leaders for node in chosen)


def test_a_node_that_joins_takes_the_next_segments() -> None:
    nodes = [NodeId(1), NodeId(2)]
    loads = {node: NodeLoad(10, 10) for node in nodes}
    assert place_segment([*nodes, NodeId(3)], loads, replicas=1) == (NodeId(3),)


@pytest.mark.parametrize("replicas", [0, 3])
def test_more_replicas_than_nodes_are_refused(replicas: int) -> None:
    with pytest.raises(InvalidConfig):
        place_segment([NodeId(1), NodeId(2)], {}, replicas=replicas)
    with pytest.raises(InvalidConfig):
        place_partitions([NodeId(1), NodeId(2)], {}, first=0, count=1, replicas=replicas)
