"""Modules of .proto files are those that the files give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.waiting import every

ROOT = Path(__file__).resolve().parents[2]


def test_what_protoc_wrote_is_up_to_date(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "scripts/proto.py", str(tmp_path)], cwd=ROOT, check=True)
    for made in every(tmp_path.rglob("*_pb2.py*")):
        kept = ROOT / "src" / made.relative_to(tmp_path)
        assert kept.read_text() == made.read_text(), f"make proto: {kept.name} is out of date"
