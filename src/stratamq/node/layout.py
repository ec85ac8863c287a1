"""A node's data folder: the names in it that are its own, and which folder may become one."""

from __future__ import annotations

from pathlib import Path

from stratamq.engine.layout import INDEX_FOLDER, MEMORY_FOLDER, ROCKSDB_FOLDER, SEGMENTS_FOLDER
from stratamq.log.disk import PRIVATE_FOLDER
from stratamq.model.errors import StorageError

LOCK_FILE = "LOCK"
CLUSTER_ID_FILE = "cluster.id"
SECRET_FILE = "sasl.secret"
DAMAGE_FILE = "damage.jsonl"
REVISION_FILE = "meta-revision"
META_FOLDER = "meta"
OFFSETS_FOLDER = "offsets"
RESTORING_FOLDER = "restoring"
"""Holds what a restore has copied so far: it is not a data folder yet."""

OWN_NAMES = frozenset(
    {
        *(LOCK_FILE, CLUSTER_ID_FILE, SECRET_FILE, DAMAGE_FILE, REVISION_FILE),
        *(META_FOLDER, OFFSETS_FOLDER),
        *(SEGMENTS_FOLDER, MEMORY_FOLDER, ROCKSDB_FOLDER, INDEX_FOLDER),
    }
)
"""A folder with any of these is a node's, even if the others were lost."""

SYSTEM_NAMES = frozenset({"lost+found"})
KAFKA_NAMES = frozenset({"meta.properties", "__cluster_metadata-0"})


def take_folder(data_dir: Path) -> None:
    """Make it, for its owner alone: it holds passwords and everybody's messages. One that exists is
    taken when it is a node's or empty; its permissions are its owner's choice, and `stratamq
    doctor` says what it thinks of them."""
    try:
        data_dir.mkdir(PRIVATE_FOLDER, parents=True)
        return
    except FileExistsError:
        if not data_dir.is_dir():
            raise StorageError(f"{data_dir} is a file, and the node needs a folder") from None
    except NotADirectoryError:
        raise StorageError(f"{data_dir} cannot be made: a part of it is a file") from None
    found = {path.name for path in data_dir.iterdir() if not path.name.startswith(".")}
    found -= SYSTEM_NAMES
    if RESTORING_FOLDER in found:
        raise StorageError(
            f"{data_dir} holds a restore that was not finished: empty the folder and restore again"
        )
    if found and not found & OWN_NAMES:
        what = f"holds {min(found)!r} and other files that are none of a node's"
        if found & KAFKA_NAMES:
            what = "is Apache Kafka's"
        raise StorageError(
            f"{data_dir} is not empty and {what}: name another folder with --data-dir"
        )
