"""The topics: three kinds of storage, and typed columns in all of them."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemoTopic:
    name: str
    what: str
    partitions: int
    configs: dict[str, str]


def _record(**fields: str) -> dict[str, str]:
    document = {
        "type": "record",
        "name": "value",
        "fields": [{"name": name, "type": ["null", kind]} for name, kind in fields.items()],
    }
    return {"lake.value.format": "json", "lake.value.schema": json.dumps(document)}


def _tiered(segment_bytes: int, local_bytes: int) -> dict[str, str]:
    return {"segment.bytes": str(segment_bytes), "local.retention.bytes": str(local_bytes)}


READINGS = DemoTopic(
    "readings",
    "coffee machines, every ten seconds",
    2,
    {
        "storage.type": "EngineSegment",
        "flush": "interval",
        **_tiered(1 << 20, 2 << 20),
        **_record(machine="string", shop="string", celsius="double", cups="long"),
    },
)
ORDERS = DemoTopic(
    "orders",
    "the order service",
    2,
    {
        "storage.type": "EngineRocksDB",
        **_tiered(1 << 18, 1 << 19),
        **_record(id="long", shop="string", drink="string", amount="double"),
    },
)
SHOPS = DemoTopic(
    "shops",
    "which shops there are",
    1,
    {"storage.type": "EngineMemory", **_record(shop="string", seats="int")},
)
RESULT = DemoTopic(
    "shop-report", "the answer, back in a topic", 1, {"storage.type": "EngineSegment"}
)

LARGE_ORDERS = DemoTopic(
    "large-orders", "what the pipeline publishes", 1, {"storage.type": "EngineSegment"}
)

TOPICS = (READINGS, ORDERS, SHOPS, RESULT, LARGE_ORDERS)
