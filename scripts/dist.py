"""Build the source distribution, and from it both wheels of this machine: `dist.py [FOLDER]`.

The checkout is copied first, without anything that was built in it, and the wheel is built from the
unpacked source distribution: what is missing there does not go unnoticed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from client_wheel import client_wheel

ROOT = Path(__file__).resolve().parent.parent
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
BUILT = shutil.ignore_patterns("*.c", "*.so", "__pycache__", "*.egg-info")
SDIST = "import sys, setuptools.build_meta as backend; backend.build_sdist(sys.argv[1])"


def build(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        checkout, unpacked = Path(work, "checkout"), Path(work, "unpacked")
        shutil.copytree(ROOT / "src", checkout / "src", ignore=BUILT)
        for name in FILES:
            shutil.copy(ROOT / name, checkout / name)
        run(sys.executable, "-c", SDIST, str(folder), cwd=checkout)
        (sdist,) = folder.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(unpacked, filter="data")
        (source,) = unpacked.iterdir()
        options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
        run(sys.executable, "-m", "pip", "wheel", *options, ".", cwd=source)
    (wheel,) = folder.glob("*.whl")
    client_wheel(wheel, folder)


def run(*command: str, cwd: Path) -> None:
    """Quietly; the output is shown when it fails."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.stderr.buffer.write(done.stdout)
        sys.exit(done.returncode)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "dist").resolve()
    for old in (*target.glob("*.whl"), *target.glob("*.tar.gz")):
        old.unlink()
    build(target)
    print(*(path.name for path in sorted(target.iterdir())), sep="\n")
