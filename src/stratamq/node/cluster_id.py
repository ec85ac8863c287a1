"""The cluster's id: made at the first start, the same ever after."""

from __future__ import annotations

import re
from pathlib import Path

from stratamq.broker.kafka.cluster import new_cluster_id
from stratamq.engine.layout import stored_shards
from stratamq.log import names
from stratamq.log.disk import RealDisk, replace_file
from stratamq.model.damage import report_damage
from stratamq.node.own_file import read_own_file

FILE = "cluster.id"


VALID = re.compile(rb"[A-Za-z0-9_-]{22}\n?")


def cluster_id(data_dir: Path) -> str:
    """Read it; where there is none, make one and keep it. One that cannot be an id is set aside,
    and one that is missing beside stored records is reported: clients and uploads know the
    cluster by it. The folder's lock must be held."""
    path = data_dir / FILE
    kept = read_own_file(path)
    if kept is not None:
        if VALID.fullmatch(kept):
            return kept.decode().strip()
        report_damage(f"{path}: not a cluster's id; set aside, and a new one is made")
        path.replace(path.with_name(FILE + names.DAMAGED))
    elif (found := next(stored_shards(data_dir), None)) is not None:
        report_damage(
            f"{path} is missing, but {found} holds records; a new id is made: clients see another"
            " cluster, and uploads that were cut off under the old id are not cleaned up"
        )
    made = new_cluster_id()
    replace_file(RealDisk(), path, made.encode() + b"\n")
    return made
