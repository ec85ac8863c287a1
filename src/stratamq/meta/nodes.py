"""Nodes in the Meta Service, and where replicas go. Placement is pure: nodes, loads and counts in,
node lists out; the first of a list leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stratamq.meta.rows import RowFormat
from stratamq.meta.state import Event, MetaState, NodeLoad, Put
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import InvalidConfig, NotFound
from stratamq.model.types import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMeta:
    """A node. One that is not live gets no new replicas, but is not forgotten: it holds old
    ones."""

    node_id: NodeId
    address: str
    live: bool = True

    @property
    def key(self) -> NodeId:
        return self.node_id


NODE_ROWS = (
    RowFormat(NodeMeta, b"n", lambda node: b"%010d" % node.node_id, lambda row: NodeMeta(**row)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNode:
    """The node is there, at this address. Idempotent."""

    node_id: NodeId
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseNode:
    """The node is gone, for now."""

    node_id: NodeId


def register_node(state: MetaState, command: RegisterNode) -> list[Event]:
    node = NodeMeta(node_id=command.node_id, address=command.address)
    return [] if state.nodes.get(command.node_id) == node else [Put(node)]


def lose_node(state: MetaState, command: LoseNode) -> list[Event]:
    node = state.nodes.get(command.node_id)
    if node is None:
        raise NotFound(f"no node {command.node_id}")
    return [Put(replace(node, live=False))] if node.live else []


# -- placement ------------------------------------------------------------------------------------

Replicas = tuple[NodeId, ...]


def place_partitions(
    live: Sequence[NodeId],
    loads: Mapping[NodeId, NodeLoad],
    *,
    first: int,
    count: int,
    replicas: int,
) -> list[Replicas]:
    """Replica j of partition i goes to node `(i + j + shift) % n` of the sorted live nodes.

    The shift is the one that leaves leaders spread most evenly over everything the nodes lead
    already.
    """
    nodes = _enough(live, replicas)
    shift = _best_shift(nodes, loads, first, count)
    return [
        tuple(nodes[(partition + j + shift) % len(nodes)] for j in range(replicas))
        for partition in range(first, first + count)
    ]


def _best_shift(
    nodes: Sequence[NodeId], loads: Mapping[NodeId, NodeLoad], first: int, count: int
) -> int:
    """Full rounds weigh the same everywhere; only the `count % n` leaders over decide."""
    n = len(nodes)
    leaders = [loads.get(node, NodeLoad()).leaders for node in nodes]

    def unevenness(shift: int) -> int:
        extra = {(first + i + shift) % n for i in range(count % n)}
        return sum((load + (at in extra)) ** 2 for at, load in enumerate(leaders))

    return min(range(n), key=unevenness)


def place_segment(
    live: Sequence[NodeId], loads: Mapping[NodeId, NodeLoad], *, replicas: int
) -> Replicas:
    """A new segment goes to the nodes that carry least, led by the one of them that leads least.

    So a node that joins takes writes at once, and no byte of history moves.
    """
    nodes = _enough(live, replicas)

    def load(node: NodeId) -> NodeLoad:
        return loads.get(node, NodeLoad())

    nodes.sort(key=lambda node: (load(node).replicas, load(node).leaders, node))
    chosen = nodes[:replicas]
    chosen.sort(key=lambda node: (load(node).leaders, load(node).replicas, node))
    return tuple(chosen)


def _enough(live: Sequence[NodeId], replicas: int) -> list[NodeId]:
    nodes = sorted(set(live))
    if not 1 <= replicas <= len(nodes):
        raise InvalidConfig(f"{replicas} replicas need as many nodes; {len(nodes)} are alive")
    return nodes
