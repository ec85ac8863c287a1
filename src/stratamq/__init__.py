"""StrataMQ: a message queue whose storage is the product.

    import stratamq

    with stratamq.open("data") as node:
        orders = node.create_topic("orders", partitions=3)
        orders.produce("2 coffees", key="alice", tags=["hot"])
        for message in orders.read_by_key("alice"):
            print(message.offset, message.text)

`open` gives a node inside your process, `aopen` the same for asyncio, `errors` has what may go
wrong.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stratamq.adapter.contract import StorageAdapter
    from stratamq.adapter.partitions import PartialWrite, Placed
    from stratamq.model import errors
    from stratamq.model.record import Record
    from stratamq.node.blocking import BlockingTopic as Topic
    from stratamq.node.blocking import Node
    from stratamq.node.blocking import Node as open
    from stratamq.node.embedded import AsyncNode, AsyncTopic
    from stratamq.node.embedded import AsyncNode as aopen
    from stratamq.node.messages import Message

__all__ = [
    "AsyncNode",
    "AsyncTopic",
    "Message",
    "Node",
    "PartialWrite",
    "Placed",
    "Record",
    "StorageAdapter",
    "Topic",
    "aopen",
    "errors",
    "open",
]

_WHERE = {
    "AsyncNode": "stratamq.node.embedded:AsyncNode",
    "AsyncTopic": "stratamq.node.embedded:AsyncTopic",
    "Message": "stratamq.node.messages:Message",
    "Node": "stratamq.node.blocking:Node",
    "PartialWrite": "stratamq.adapter.partitions:PartialWrite",
    "Placed": "stratamq.adapter.partitions:Placed",
    "Record": "stratamq.model.record:Record",
    "StorageAdapter": "stratamq.adapter.contract:StorageAdapter",
    "Topic": "stratamq.node.blocking:BlockingTopic",
    "aopen": "stratamq.node.embedded:AsyncNode",
    "errors": "stratamq.model.errors:",
    "open": "stratamq.node.blocking:Node",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: `import stratamq` costs nothing, and importing a lower
    package does not draw in the upper ones."""
    if name not in _WHERE:
        raise AttributeError(f"module 'stratamq' has no attribute {name!r}")
    module, _, attribute = _WHERE[name].partition(":")
    found = import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
