"""The cluster's id: made at the first start, the same ever after."""

from __future__ import annotations

from pathlib import Path

from stratamq.broker.kafka.cluster import new_cluster_id
from stratamq.log.disk import RealDisk, replace_file

FILE = "cluster.id"


def cluster_id(data_dir: Path) -> str:
    """Read it; where there is none, make one and keep it. The folder's lock must be held."""
    path = data_dir / FILE
    if path.exists() and (kept := path.read_text(encoding="ascii").strip()):
        return kept
    made = new_cluster_id()
    replace_file(RealDisk(), path, made.encode() + b"\n")
    return made
