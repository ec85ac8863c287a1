"""The project to begin with, and the words of spark-submit."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from stratamq.cli.main import application
from stratamq.model.errors import AlreadyExists, InvalidConfig, InvalidName
from stratamq.pipelines.project import init, spec_of
from stratamq.spark.submit import HOME, Submission, command, environment, hadoop_version


def test_a_project_has_a_spec_and_steps(tmp_path: Path) -> None:
    written = init("shop", tmp_path, "node:1")
    spec = yaml.safe_load(spec_of(tmp_path / "shop").read_text())
    assert spec["name"] == "shop"
    assert spec["storage"] == (tmp_path / "shop" / "storage").as_uri()
    assert spec["configuration"]["spark.stratamq.servers"] == "node:1"
    for path in written:
        if path.suffix == ".py":
            ast.parse(path.read_text())
    assert {path.name for path in written} >= {"orders.py", "order_totals.sql", "sample.py"}


def test_nothing_is_written_over(tmp_path: Path) -> None:
    init("shop", tmp_path, "node:1")
    with pytest.raises(AlreadyExists, match="shop is there already"):
        init("shop", tmp_path, "node:1")


@pytest.mark.parametrize("name", ["", "../up", "a b", "1st", "x" * 65])
def test_odd_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidName, match="letters, digits"):
        init(name, tmp_path, "node:1")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_spec_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidName, match="stratamq pipeline init"):
        spec_of(tmp_path)


def test_the_command_makes_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = application("pipeline")
    made = CliRunner().invoke(app, ["pipeline", "init", "shop", "--servers", "node:1"])
    assert made.exit_code == 0, made.output
    assert "shop/transformations/orders.py" in made.output
    again = CliRunner().invoke(app, ["pipeline", "init", "shop"])
    assert again.exit_code == 1


def test_a_setting_without_a_value_is_refused(tmp_path: Path) -> None:
    init("shop", tmp_path, "node:1")
    words = ["pipeline", "run", str(tmp_path / "shop"), "--conf", "spark.x"]
    refused = CliRunner().invoke(application("pipeline"), words)
    assert refused.exit_code == 2
    assert "name=value" in refused.output


def test_a_job_gets_what_it_needs(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.touch()
    asked = Submission(
        job=job,
        arguments=["a", "--b"],
        servers="node:1",
        s3=True,
        settings={"spark.x": "1", "spark.jars.packages": "their:own:1"},
    )
    words = command(asked)
    assert words[0] == str(HOME / "bin" / "spark-submit")
    assert words[-3:] == [str(job), "a", "--b"]
    (jars,) = [word for word in words if word.startswith("spark.jars.packages=")]
    assert f"org.apache.hadoop:hadoop-aws:{hadoop_version(HOME / 'jars')}," in jars
    assert jars.endswith(",their:own:1")
    (places,) = [word for word in words if word.startswith("spark.jars.ivySettings=")]
    assert Path(places.partition("=")[2]).is_file()
    assert {"spark.stratamq.servers=node:1", "spark.x=1"} <= set(words)
    assert environment({})["PYSPARK_PYTHON"] == sys.executable
    assert environment({"PYSPARK_PYTHON": "other"})["PYSPARK_PYTHON"] == "other"


def test_who_knows_where_jars_are_says_so(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.touch()
    asked = Submission(job=job, s3=True, settings={"spark.jars.ivySettings": "theirs.xml"})
    assert "spark.jars.ivySettings=theirs.xml" in command(asked)
    assert not any("ivySettings" in word for word in command(Submission(job=job)))


def test_a_job_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"no job .*gone\.py"):
        command(Submission(job=tmp_path / "gone.py"))
