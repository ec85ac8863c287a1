"""Who is in the cluster, as clients are told."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from stratamq.meta.entities import NodeMeta
from stratamq.meta.state import MetaState
from stratamq.model.types import NodeId

NOBODY = -1


class Broker(NamedTuple):
    node_id: NodeId
    host: str
    port: int


def new_cluster_id() -> str:
    """A random UUID in 22 characters, as Kafka writes its own."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def brokers(state: MetaState) -> Sequence[Broker]:
    """The living nodes, each at the address it registered for clients."""
    return [_broker(state.nodes[node]) for node in state.live_nodes()]


def all_brokers(state: MetaState) -> Sequence[Broker]:
    """Also those that are gone for now."""
    return [_broker(state.nodes[node]) for node in sorted(state.nodes)]


def controller(state: MetaState) -> int:
    """Whoever is asked passes changes on to the Meta Service, so any living node will do."""
    return min(state.live_nodes(), default=NOBODY)


def _broker(node: NodeMeta) -> Broker:
    host, _, port = node.address.rpartition(":")
    return Broker(node.node_id, host.strip("[]"), int(port) if port.isdigit() else 0)
