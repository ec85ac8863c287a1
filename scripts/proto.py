"""Write the module of each .proto file beside it: `make proto`. Given a folder, write it there."""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

SOURCES = Path(__file__).resolve().parents[1] / "src"


def write(target: Path) -> list[Path]:
    """The files that were written, below `target`."""
    protos = sorted(path.relative_to(SOURCES) for path in SOURCES.rglob("*.proto"))
    command = ["protoc", f"-I{SOURCES}", f"--python_out={target}", f"--pyi_out={target}"]
    if protoc.main([*command, *map(str, protos)]):
        raise SystemExit("protoc failed")
    return [
        target / path.with_name(path.stem + suffix)
        for path in protos
        for suffix in ("_pb2.py", "_pb2.pyi")
    ]


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCES)
