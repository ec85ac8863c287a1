"""Replicas placed by hand: what is refused before anything is made. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stratamq.adapter.shards import Placement
from stratamq.broker.kafka.errors import Refused
from stratamq.model.types import NodeId
from stratamq.wire.kafka.protocol import ErrorCode


def by_partition(given: Sequence[tuple[int, Sequence[int]]]) -> list[Sequence[int]]:
    """The replicas of partitions 0, 1, 2, ..., in whatever order they were given."""
    ordered = sorted(given, key=lambda one: one[0])
    if [index for index, _ in ordered] != list(range(len(ordered))):
        raise _refused("partitions must be numbered 0, 1, 2, ... without a hole")
    return [nodes for _, nodes in ordered]


def placement(given: Sequence[Sequence[int]], live: Collection[NodeId], replicas: int) -> Placement:
    """Each partition's nodes, checked. `replicas` is how many each must have."""
    return [_nodes(nodes, live, replicas) for nodes in given]


def _nodes(given: Sequence[int], live: Collection[NodeId], replicas: int) -> tuple[NodeId, ...]:
    nodes = tuple(NodeId(node) for node in given)
    if not nodes:
        raise _refused("a partition needs at least one replica")
    if len(set(nodes)) != len(nodes):
        raise _refused(f"replicas {list(nodes)} are not distinct nodes")
    if strangers := sorted(set(nodes) - set(live)):
        raise _refused(f"there is no live node {strangers[0]}")
    if len(nodes) != replicas:
        raise _refused(f"replicas {list(nodes)} are not {replicas}, as the other partitions have")
    return nodes


def _refused(why: str) -> Refused:
    return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
