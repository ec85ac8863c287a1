"""A secret of this cluster that never leaves it: made at the first start, the same ever after."""

from __future__ import annotations

import secrets
from pathlib import Path

from stratamq.log.disk import RealDisk, replace_file
from stratamq.node.own_file import read_own_file

FILE = "sasl.secret"
SECRET_BYTES = 32


def sasl_secret(data_dir: Path) -> bytes:
    """Read it; where there is none, make one and keep it. The folder's lock must be held."""
    path = data_dir / FILE
    kept = read_own_file(path)
    if kept is not None and len(kept) == SECRET_BYTES:
        return kept
    made = secrets.token_bytes(SECRET_BYTES)
    replace_file(RealDisk(), path, made)
    return made
