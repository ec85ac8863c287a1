"""The constraints files pin everything, by hash, and name no place to get it from."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.waiting import every

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "constraints.txt": ("dev",),
    "constraints-cluster.txt": ("cluster",),
    "constraints-lake.txt": ("lake",),
    "constraints-otel.txt": ("otel",),
    "constraints-spark.txt": ("spark",),
}
PIN = re.compile(r"([a-z0-9-]+)==(\S+) \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / name).read_text()))


def required(*extras: str) -> list[Requirement]:
    table = project()["project"]
    assert isinstance(table, dict)
    groups = [table["dependencies"], *(table["optional-dependencies"][extra] for extra in extras)]
    return [Requirement(line) for group in groups for line in group]


def test_there_is_a_file_for_every_extra() -> None:
    table = project()["project"]
    assert isinstance(table, dict)
    assert {extra for extras in FILES.values() for extra in extras} == set(
        table["optional-dependencies"]
    )
    assert {path.name for path in ROOT.glob("constraints*.txt")} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_file_holds_names_versions_and_hashes_and_nothing_else(name: str) -> None:
    lines = (ROOT / name).read_text().splitlines()
    strange = [
        line for line in lines if line and not PIN.fullmatch(line) and not HASH.fullmatch(line)
    ]
    assert strange == []
    assert not [
        pin for pin, after in itertools.pairwise(lines) if "==" in pin and "--hash" not in after
    ]


@pytest.mark.parametrize("name", FILES)
def test_what_the_project_asks_for_is_pinned_to_a_version_it_accepts(name: str) -> None:
    found = pins(name)
    for requirement in every(required(*FILES[name])):
        version = found[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), requirement


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-lake.txt"])
def test_the_build_is_pinned_too(name: str) -> None:
    build = project()["build-system"]
    assert isinstance(build, dict)
    found = pins(name)
    for requirement in map(Requirement, build["requires"]):
        assert requirement.specifier.contains(found[canonicalize_name(requirement.name)])


def test_the_files_agree_on_what_they_share() -> None:
    seen: dict[str, str] = {}
    for name in FILES:
        for package, version in every(pins(name).items()):
            assert seen.setdefault(package, version) == version, f"{package} in {name}"
