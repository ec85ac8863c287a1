"""Make `stratamq-client` from a wheel of `stratamq`: `client_wheel.py WHEEL [FOLDER]`.

The files are the same and the name is another; of the dependencies only those stay that a command
on a running node needs. docs/decisions/0017-a-client-of-its-own.md says why it is not an extra.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path

NAME, CLIENT = "stratamq", "stratamq_client"
KEPT = frozenset({"cramjam", "crc32c", "typer", "uvloop"})
REQUIRED = re.compile(r"Requires-Dist: ([\w-]+)")


def client_wheel(wheel: Path, folder: Path) -> Path:
    target = folder / wheel.name.replace(f"{NAME}-", f"{CLIENT}-", 1)
    record: list[str] = []
    with zipfile.ZipFile(wheel) as full, zipfile.ZipFile(target, "w") as light:
        for item in full.infolist():
            content = full.read(item)
            item.filename = re.sub(rf"^{NAME}-(?=[^/]*\.dist-info/)", f"{CLIENT}-", item.filename)
            if item.filename.endswith(".dist-info/METADATA"):
                content = client_metadata(content.decode()).encode()
            if item.filename.endswith(".dist-info/RECORD"):
                content = "".join([*record, f"{item.filename},,\n"]).encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
            record.append(f"{item.filename},sha256={digest.rstrip('=')},{len(content)}\n")
            light.writestr(item, content, zipfile.ZIP_DEFLATED)
    return target


def client_metadata(text: str) -> str:
    """Without extras, and without what only a node needs."""
    head, blank, body = text.partition("\n\n")
    lines = head.replace(f"Name: {NAME}\n", f"Name: {CLIENT.replace('_', '-')}\n").splitlines()
    kept = [line for line in lines if not line.startswith("Provides-Extra:") and is_kept(line)]
    return "\n".join(kept) + blank + body


def is_kept(line: str) -> bool:
    required = REQUIRED.match(line)
    return required is None or (required[1] in KEPT and "extra ==" not in line)


if __name__ == "__main__":
    source = Path(sys.argv[1])
    print(client_wheel(source, Path(sys.argv[2]) if len(sys.argv) > 2 else source.parent).name)
