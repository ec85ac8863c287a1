"""A project to begin with: source topic, cleaned table, totals, and back to a topic."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from stratamq.model.errors import AlreadyExists, InvalidName

SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
SUFFIX = ".tmpl"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def init(name: str, parent: Path, servers: str) -> list[Path]:
    """Write the project into a new folder `name`; the files, in order."""
    if not _NAME.fullmatch(name):
        raise InvalidName(f"{name!r}: a pipeline's name has letters, digits, - and _, at most 64")
    folder = parent.absolute() / name
    if folder.exists():
        raise AlreadyExists(f"{folder} is there already")
    given = {"name": name, "servers": servers, "storage": (folder / "storage").as_uri()}
    return list(_written(files(__package__) / "template", folder, given))


def spec_of(place: Path) -> Path:
    """The project's spec file, from that or from its folder."""
    candidates = [place] if place.is_file() else [place / name for name in SPEC_NAMES]
    for one in candidates:
        if one.is_file():
            return one.absolute()
    raise InvalidName(f"{place} has no {SPEC_NAMES[0]}: `stratamq pipeline init NAME` makes one")


def _written(source: Traversable, folder: Path, given: dict[str, str]) -> list[Path]:
    folder.mkdir(parents=True)
    found = []
    for one in sorted(source.iterdir(), key=lambda entry: entry.name):
        if one.is_dir():
            found += _written(one, folder / one.name, given)
        elif one.name.endswith(SUFFIX):
            path = folder / one.name.removesuffix(SUFFIX)
            path.write_text(Template(one.read_text()).substitute(given))
            found.append(path)
    return found
