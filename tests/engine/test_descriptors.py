"""An engine in a process that has no descriptor left: refused by name, and back by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.conftest import ENGINES


@pytest.mark.parametrize("kind", list(ENGINES))
def test_an_engine_survives_a_lack_of_descriptors(tmp_path: Path, kind: str) -> None:
    """See `starving.py`: nothing acknowledged is lost, nothing needs a restart."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(root / "tests" / "engine" / "starving.py"), kind, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    succeeded, refused = map(int, done.stdout.split())
    assert succeeded
    # EngineRocksDB opens its store again with the descriptors that closing it sets free.
    assert refused or kind == "rocksdb"
