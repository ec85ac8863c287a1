"""Where tasks are to run is looked at before anything is started."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stratamq.cli.main import application
from stratamq.model.errors import InvalidConfig, StrataError
from stratamq.pipelines.project import init
from stratamq.spark import session
from stratamq.spark.machine import check_master, check_server
from tests.peers.s3 import free_port


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("master", ["local", "local[2]", "local[2,8]", "yarn", "k8s://https://h"])
def test_some_are_left_to_spark(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize("master", ["", "loca", "localhost", "host:7077", "sc://host", "spark://"])
def test_others_are_unknown(master: str) -> None:
    with pytest.raises(InvalidConfig, match="a master is"):
        check_master(master)


def test_one_master_of_several_is_enough(listening: str) -> None:
    check_master(f"spark://127.0.0.1:{free_port()},{listening}")


@pytest.mark.parametrize("place", ["127.0.0.1:{port}", "127.0.0.1:99999", "no.such.host.invalid"])
def test_a_master_that_does_not_answer(place: str) -> None:
    with pytest.raises(StrataError, match="no Spark master answers at spark://"):
        check_master("spark://" + place.format(port=free_port()))


@pytest.mark.needs("java")
def test_nothing_is_started_for_it(tmp_path: Path) -> None:
    """Neither by a session nor by the commands, which say it in a line."""
    master = f"spark://127.0.0.1:{free_port()}"
    with pytest.raises(StrataError, match="no Spark master answers"):
        session(master)
    init("shop", tmp_path, "node:1")
    (tmp_path / "job.py").touch()
    commands = {
        "pipeline": ["run", str(tmp_path / "shop"), "--master", master],
        "spark": ["submit", "--master", master, str(tmp_path / "job.py")],
    }
    for name, words in commands.items():
        told = CliRunner().invoke(application(name), [name, *words])
        assert told.exit_code == 1
        assert told.output == f"stratamq: no Spark master answers at {master}\n"


def test_servers(listening: str) -> None:
    check_server(f"sc://{listening}/;user_id=me")
    with pytest.raises(StrataError, match=r"no Spark Connect server answers at sc://127\.0\.0\.1"):
        check_server(f"sc://127.0.0.1:{free_port()}/;token=secret")
    with pytest.raises(InvalidConfig, match="sc://host:port"):
        check_server(listening)
