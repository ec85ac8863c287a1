"""What a cluster is known by: its id, and a secret that never leaves it. Both are made at the first
start and are the same ever after. The data folder's lock must be held."""

from __future__ import annotations

import re
from pathlib import Path

from stratamq.broker.kafka.cluster import new_cluster_id
from stratamq.engine.layout import stored_shards
from stratamq.log import names
from stratamq.log.disk import replace_file
from stratamq.model.damage import report_damage
from stratamq.node.data_dir import read_own_file
from stratamq.node.doors import Doors
from stratamq.node.layout import CLUSTER_ID_FILE, SECRET_FILE

SECRET_BYTES = 32

VALID_ID = re.compile(rb"[A-Za-z0-9_-]{22}\n?")


def cluster_id(data_dir: Path, doors: Doors = Doors()) -> str:
    """Read it; where there is none, make one and store it. One that cannot be an id is set aside,
    and one that is missing next to stored records is reported: clients and uploads know the
    cluster by it."""
    path, disk = data_dir / CLUSTER_ID_FILE, doors.own_disk
    stored = read_own_file(disk, path)
    if stored is not None:
        if VALID_ID.fullmatch(stored):
            return stored.decode().strip()
        report_damage(f"{path}: not a cluster's id; set aside, and a new one is made")
        disk.rename(path, path.with_name(path.name + names.DAMAGED))
    elif (found := next(stored_shards(disk, data_dir), None)) is not None:
        report_damage(
            f"{path} is missing, but {found} holds records; a new id is made: clients see another"
            " cluster, and uploads that were cut off under the old id are not cleaned up"
        )
    created = new_cluster_id(doors.entropy)
    replace_file(disk, path, created.encode() + b"\n")
    return created


def sasl_secret(data_dir: Path, doors: Doors = Doors()) -> bytes:
    """Read it; where there is none, make one and store it."""
    path, disk = data_dir / SECRET_FILE, doors.own_disk
    stored = read_own_file(disk, path)
    if stored is not None and len(stored) == SECRET_BYTES:
        return stored
    created = doors.entropy(SECRET_BYTES)
    replace_file(disk, path, created)
    return created
