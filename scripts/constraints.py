"""Write the constraints files: exact versions and hashes of everything the install may bring.

`constraints.txt` holds what the core, its tests and its build need; each extra has a file of its
own with the core in it. A node that is started from a checkout needs the core, its history and the
build: that is `constraints-lake.txt`. All agree on every version they share. The files hold names,
versions and hashes and no address, so any mirror of the package index will do.

`make constraints` runs it; `UPGRADE=1 make constraints` also moves to the newest versions. Named
files alone are written when they are given: `constraints.py constraints-lake.txt`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASE = "constraints.txt"
RUN = "constraints-lake.txt"
EXTRAS = ("cluster", "lake", "otel", "spark")
OPTIONS = (
    "--generate-hashes",
    "--allow-unsafe",
    "--strip-extras",
    "--no-annotate",
    "--no-header",
    "--no-emit-options",
    "--no-emit-index-url",
    "--no-emit-trusted-host",
    "--no-emit-find-links",
    "--quiet",
)


def wanted(project: dict[str, dict[str, object]], *groups: str) -> list[str]:
    """The requirements of the core and of `groups`, as pyproject.toml has them."""
    extras = project["project"]["optional-dependencies"]
    assert isinstance(extras, dict)
    core = project["project"]["dependencies"]
    assert isinstance(core, list)
    return [*core, *(line for group in groups for line in extras[group])]


def compile_file(name: str, lines: list[str], *, upgrade: bool, work: Path) -> None:
    """Resolve `lines` into the constraints file `name`, keeping to versions already chosen."""
    source = work / "wanted.in"
    known = [other for other in files() if other != name and (ROOT / other).exists()]
    keep = [f"-c {pins(ROOT / other, work)}" for other in known]
    source.write_text("\n".join([*lines, *keep]) + "\n")
    command = [sys.executable, "-m", "piptools", "compile", *OPTIONS, "-o", name, str(source)]
    if upgrade:
        command.append("--upgrade")
    subprocess.run(command, check=True, cwd=ROOT)
    lines = (ROOT / name).read_text().splitlines()
    (ROOT / name).write_text("".join(f"{line}\n" for line in lines if line and line[0] != "#"))


def pins(path: Path, work: Path) -> Path:
    """The versions of a constraints file without its hashes: what another file must agree with."""
    pinned = [line.split()[0] for line in path.read_text().splitlines() if "==" in line]
    copy = work / path.name
    copy.write_text("\n".join(pinned) + "\n")
    return copy


def files() -> dict[str, tuple[str, ...]]:
    """The constraints files, and the extras each of them serves."""
    return {BASE: ("dev",)} | {f"constraints-{extra}.txt": (extra,) for extra in EXTRAS}


def main(chosen: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    upgrade = os.environ.get("UPGRADE", "") not in ("", "0")
    if upgrade and not chosen:
        for name in files():
            (ROOT / name).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, extras in files().items():
            if not chosen or name in chosen:
                build = project["build-system"]["requires"] if name in (BASE, RUN) else []
                lines = [*wanted(project, *extras), *build]
                compile_file(name, lines, upgrade=upgrade, work=Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
