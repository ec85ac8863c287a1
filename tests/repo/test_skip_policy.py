"""A test that needs an outside program is skipped without it, and says so; under CI it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEST = """
import pytest

@pytest.mark.needs("{program}")
def test_talks_to_it():
    pass

def test_needs_nothing():
    pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Runs a test that needs `program` under this repository's own conftest."""

    def run(program: str, ci: str | None) -> pytest.RunResult:
        monkeypatch.delenv("CI", raising=False)
        if ci is not None:
            monkeypatch.setenv("CI", ci)
        monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
        pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text())
        pytester.makeini("[pytest]\nmarkers = needs(*programs): outside programs\n")
        pytester.makepyfile(TEST.format(program=program))
        return pytester.runpytest_subprocess("-rs", "-p", "no:cacheprovider", "-p", "no:randomly")

    return run


@pytest.mark.parametrize("ci", [None, "", "false"])
def test_a_missing_program_skips_with_the_reason_in_the_summary(run, ci: str | None) -> None:
    result = run("no-such-program", ci)
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*needs no-such-program"])


def test_under_ci_a_missing_program_is_a_failure(run) -> None:
    result = run("no-such-program", "true")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*needs no-such-program: with CI=true nothing is skipped*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("ci", [None, "true"])
def test_a_program_that_is_there_changes_nothing(run, ci: str | None) -> None:
    run("sh", ci).assert_outcomes(passed=2)


def test_an_old_java_is_no_java(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = run("java", None)
    result.assert_outcomes(passed=1, skipped=1)
