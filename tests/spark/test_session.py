"""What is missing on a machine is said in one sentence."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql.datasource import DataSourceReader

from stratamq.model.errors import InvalidConfig
from stratamq.spark.columns import SCHEMA
from stratamq.spark.machine import check_java, interpreter, major_version
from stratamq.spark.session import is_local, session
from tests.waiting import every


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidConfig, match="Spark needs Java 17 or newer, and no java"):
        session()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidConfig, match=r"JAVA_HOME is .*, which has no bin/java"):
        check_java()


def a_java(home: Path, said: str) -> None:
    (home / "bin").mkdir()
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ('JAVA_VERSION="11.0.2"\n', "never asked"),
        (None, 'openjdk version "11.0.2" 2019-01-15'),
    ],
)
def test_an_old_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, note: str | None, said: str
) -> None:
    """Whether the version is in its folder, or only it can say."""
    a_java(tmp_path, said)
    if note is not None:
        (tmp_path / "release").write_text(note)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidConfig, match=r"Spark needs Java 17 or newer, and .* is Java 11$"):
        check_java()


def test_a_java_that_is_new_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a_java(tmp_path, 'openjdk version "21" 2023-09-19')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()


def test_a_java_that_does_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a_java(tmp_path, "")
    (tmp_path / "bin" / "java").chmod(0o644)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidConfig, match="does not say which version it is"):
        check_java()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('IMPLEMENTOR="Debian"\nJAVA_VERSION="21.0.1"\n', 21),
        ('java version "1.8.0_392"', 8),
        ("no such thing", None),
    ],
)
def test_versions_of_java(text: str, version: int | None) -> None:
    assert major_version(text) == version


def test_no_pyspark() -> None:
    """By an interpreter that cannot find it."""
    program = "import sys; sys.modules['pyspark'] = None; import stratamq.spark"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert "pip install 'stratamq[spark,lake]'" in told.stderr.splitlines()[-1]


def test_a_worker_loads_what_it_needs() -> None:
    """Spark starts an interpreter for each stream: what only others need would be waited for."""
    program = """
import sys, stratamq.spark.source, stratamq.spark.stream
needless = {"pyarrow.compute", "stratamq.spark.sink.writers", "stratamq.spark.union", "email"}
print(sorted(needless & set(sys.modules)))
"""
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == "[]"


def test_workers_take_the_pyspark_that_is_compiled() -> None:
    """Not the zip that Spark puts before it; and there is always a Python to run."""
    zipped = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
    told = subprocess.run(
        [interpreter(), "-c", "import pyspark; print(pyspark.__file__)"],
        env={**os.environ, "PYTHONPATH": str(zipped)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert told.stdout.strip() == pyspark.__file__


def test_where_no_script_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    assert interpreter.__wrapped__() == sys.executable


def test_everything_is_found_under_its_name() -> None:
    package = importlib.import_module("stratamq.spark")
    importlib.import_module("stratamq.spark.session")
    for name in every(package.__all__):
        assert callable(getattr(package, name)), name
    with pytest.raises(AttributeError, match="no attribute 'sesion'"):
        _ = package.sesion


def test_spark_finds_the_format_by_itself() -> None:
    """As its look-up does: by the names of packages. Unless asked to, it must not take filters:
    Spark refuses sources that do, and with them, mixes up the queries over a data frame."""
    found = [one.name for one in pkgutil.iter_modules() if one.name.startswith("pyspark_")]
    assert "pyspark_stratamq" in found
    source = importlib.import_module("pyspark_stratamq").DefaultSource
    assert source.name() == "stratamq"
    options = {"servers": "h:1", "topic": "t"}
    assert type(source(options).reader(SCHEMA)).pushFilters is DataSourceReader.pushFilters
    asked = source({**options, "pushfilters": "true"}).reader(SCHEMA)
    assert type(asked).pushFilters is not DataSourceReader.pushFilters


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[4]", True),
        ("spark://h:7077", False),
        ("local-cluster[1,1,1]", False),
    ],
)
def test_what_is_local(master: str, local: bool) -> None:
    assert is_local(master) is local
