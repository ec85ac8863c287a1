"""What the process that writes tables is asked and answers, as values and as lines of JSON.

See `process` for the one end and `worker` for the other. Nothing here needs pyarrow or pyiceberg:
only the worker loads them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from stratamq.meta.tier.files import ParquetEnd, TierFile, TierObject
from stratamq.model.config import NodeConfig
from stratamq.model.topic import Topic, TopicConfig
from stratamq.model.types import TopicId
from stratamq.tiering.stores.opening import options_of
from stratamq.tiering.stores.options import StoreLimits, StoreOptions

NO_CATALOG = "none"
CATALOG_FILE = "lake/catalog.sqlite"
FILE_FIELDS = tuple(field.name for field in fields(TierFile))
_values = attrgetter(*FILE_FIELDS)
PIECE_FILES = 200
_OBJECTS = ("parquet", "log", "index", "timeindex")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """What the process is started with. No secret is among it."""

    store: StoreOptions
    catalog_uri: str = ""
    """Empty: SQLite at `catalog_path`. `none`: no Iceberg tables."""
    catalog_path: Path
    warehouse: str = ""
    namespace: str = "stratamq"
    snapshots_ms_max: int = 24 * 3_600_000


def table_options(config: NodeConfig) -> TableOptions:
    return TableOptions(
        store=options_of(config),
        catalog_uri=config.text("lake.catalog.uri"),
        catalog_path=config.data_dir.absolute() / CATALOG_FILE,
        warehouse=config.text("lake.catalog.warehouse"),
        namespace=config.text("lake.namespace"),
        snapshots_ms_max=config.number("tier.orphan.grace.ms"),
    )


def table_name(config: NodeConfig, topic: Topic) -> str | None:
    """What the topic's Iceberg table is called; None if it has none."""
    has_table = topic.config.flag("lake.iceberg") and topic.config["tier.format"] != "log"
    if not has_table or config.text("lake.catalog.uri") == NO_CATALOG:
        return None
    return f"{config.text('lake.namespace')}.{topic.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTable:
    """Write a topic's manifest, and make its Iceberg table what the files say."""

    topic: Topic
    files: Sequence[TierFile]
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    """Drop the table, the manifest and the metadata of a topic that is gone."""

    name: str
    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepTables:
    """Drop the tables of topics that are not among these: they were deleted while the node was
    down."""

    topics: dict[str, TopicId]
    """Ids by name."""


Request = WriteTable | DropTable | KeepTables


class Written(NamedTuple):
    """What changed in the Iceberg table, if the topic has one, and the rows it has. For KeepTables,
    `removed` are tables."""

    added: int = 0
    removed: int = 0
    expired: int = 0
    rows: int = 0


class TableFailure(NamedTuple):
    """An error, by the name of its class."""

    kind: str
    message: str


Answer = Written | TableFailure


def encode_options(options: TableOptions) -> bytes:
    return json.dumps(asdict(options), default=str).encode() + b"\n"


def decode_options(line: bytes) -> TableOptions:
    found: dict[str, Any] = json.loads(line)
    store = found.pop("store")
    limits = StoreLimits(**store.pop("limits"))
    path = Path(found.pop("catalog_path"))
    return TableOptions(store=StoreOptions(**store, limits=limits), catalog_path=path, **found)


def encode_request(request: Request) -> bytes:
    match request:
        case DropTable():
            said = json.dumps({"drop": asdict(request)})
        case KeepTables():
            said = json.dumps({"keep": asdict(request)})
        case WriteTable():
            topic, files = request.topic, request.files
            head = json.dumps(
                [topic.topic_id, topic.name, topic.partitions, dict(topic.config.given)]
            )
            pieces = (files[at : at + PIECE_FILES] for at in range(0, len(files), PIECE_FILES))
            listed = ",".join(
                json.dumps([_values(file) for file in piece])[1:-1] for piece in pieces
            )
            said = f'{{"topic":{head},"revision":{request.revision},"files":[{listed}]}}'
    return f"{said}\n".encode()


def decode_request(line: bytes) -> Request:
    said: dict[str, Any] = json.loads(line)
    if "drop" in said:
        return DropTable(**said["drop"])
    if "keep" in said:
        return KeepTables(**said["keep"])
    topic_id, name, partitions, given = said["topic"]
    topic = Topic(topic_id=topic_id, name=name, partitions=partitions, config=TopicConfig.of(given))
    files = []
    for values in said["files"]:
        found = dict(zip(FILE_FIELDS, values, strict=True))
        for field in _OBJECTS:
            found[field] = TierObject(*found[field]) if found[field] else None
        found["parquet_end"] = ParquetEnd(*found["parquet_end"]) if found["parquet_end"] else None
        files.append(TierFile(**found))
    return WriteTable(topic=topic, files=files, revision=said["revision"])


def encode_answer(answer: Answer) -> bytes:
    kind = "failure" if isinstance(answer, TableFailure) else "written"
    return json.dumps({kind: list(answer)}).encode() + b"\n"


def decode_answer(line: bytes) -> Answer:
    ((kind, said),) = json.loads(line).items()
    return TableFailure(*said) if kind == "failure" else Written(*said)
