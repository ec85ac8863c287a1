"""What holds for all commands on a node: where it is, how they fail, what their help shows."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from stratamq.cli.failing import Exit
from stratamq.cli.main import COMMANDS, application, asked_command
from stratamq.model.config import CLIENT_VARIABLES, read_env
from tests.cli.tool import ROOT, SECONDS_MAX, Tool, requires
from tests.clients.node import Node
from tests.waiting import every


@pytest.fixture
def nowhere() -> str:
    """An address at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def test_a_node_that_is_not_there(nowhere: str) -> None:
    words = ("topic", "list", "--server", nowhere, "--property", "retry.ms=1")
    said = Tool().fails(Exit.UNREACHABLE, *words)
    assert f"{nowhere} cannot be reached (Connection refused)" in said
    assert "--server HOST:PORT" in said
    assert len(said.splitlines()) == 2


def test_a_trace_is_for_those_who_ask(nowhere: str) -> None:
    words = ("topic", "list", "--server", nowhere, "--property", "retry.ms=1", "--debug")
    process = Tool().process(*words)
    _, errors = process.communicate(timeout=SECONDS_MAX)
    assert b"Traceback" in errors
    assert process.returncode == 1


def test_a_flag_wins_over_the_environment(node: Node, nowhere: str) -> None:
    elsewhere = Tool({"STRATAMQ_SERVER": nowhere})
    elsewhere.ok("topic", "list", "--server", node.address)


def test_a_profile_names_the_node(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text(f'[default]\nserver = "127.0.0.1:1"\n[mine]\nserver = "{node.address}"\n')
    mine = Tool({"STRATAMQ_PROFILES": str(file)})
    mine.ok("topic", "list", "--profile", "mine")
    Tool({**mine.env, "STRATAMQ_PROFILE": "mine"}).ok("topic", "list")
    words = ("topic", "list", "--property", "retry.ms=1")
    assert "127.0.0.1:1 " in mine.fails(Exit.UNREACHABLE, *words), "the default one"
    assert "it has: default, mine" in mine.fails(Exit.USAGE, *words, "--profile", "yours")


@pytest.mark.parametrize("words", [["topic", "list", "--property", "x=1"], ["topic", "list", "-q"]])
def test_a_slip_is_a_usage_error(words: list[str]) -> None:
    Tool().fails(Exit.USAGE, *words)


def test_a_pipe_gets_plain_text(tool: Tool) -> None:
    tool.ok("topic", "create", "plain", "--if-not-exists")
    process = tool.process("topic", "describe", "plain")
    output, _ = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0
    assert output.isascii()
    assert b"\x1b" not in output


def described(family: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command with all that is below it, each with the words that lead to it."""
    top: Any = typer.main.get_command(application(family))
    found = top.commands[family]
    yield (family,), found
    for name, command in getattr(found, "commands", {}).items():
        yield (family, name), command


@pytest.mark.parametrize("family", COMMANDS)
@pytest.mark.parametrize("columns", ["40", "80"])
def test_help_cuts_no_flag_no_name_and_no_sentence(family: str, columns: str) -> None:
    for words, command in every(described(family)):
        shown = Tool().run(*words, "--help", COLUMNS=columns, TERMINAL_WIDTH=columns).output
        flags = [flag for one in command.params for flag in one.opts if flag.startswith("--")]
        assert [flag for flag in flags if not re.search(rf"{flag}\b", shown)] == [], words
        assert not re.search(r"list\[|<int|<str| range>|x>=", shown), f"{words}: Python's types"
        names = getattr(command, "commands", {})
        assert [name for name in names if f"\n  {name} " not in shown] == [], words
        _, _, listed = shown.partition("\nCommands:")
        assert "..." not in listed, words


@pytest.mark.parametrize("columns", ["40", "80"])
def test_the_first_help_is_whole(columns: str) -> None:
    shown = Tool().run("--help", COLUMNS=columns, TERMINAL_WIDTH=columns).output
    _, _, listed = shown.partition("\nCommands:")
    assert "..." not in listed
    for family in COMMANDS:
        assert f"\n  {family} " in listed
    assert "or with -f also those to come" in " ".join(listed.split())


def test_help_of_a_command_on_a_node_has_no_settings_of_a_server() -> None:
    shown = Tool().run("topic", "create", "--help").output
    assert "--partitions" in shown
    assert "--server" in shown
    assert "--data-dir" not in shown


def test_a_name_with_several_addresses_fails_in_one_sentence(nowhere: str) -> None:
    server = "localhost:" + nowhere.partition(":")[2]
    said = Tool().fails(3, "topic", "list", "--server", server, "--property", "retry.ms=1")
    assert f"{server} cannot be reached (Connection refused)" in said


def test_json_of_commands_without_a_node(tmp_path: Path) -> None:
    data = ("--data-dir", tmp_path / "data")
    requires(Tool().json("version"), {"version": str})
    checks = Tool().json("doctor", *data)
    requires(checks, {"checks": [{"check": str, "result": str, "text": str}]})
    settings = Tool().json("config", *data)["settings"]
    assert settings["data.dir"] == {"value": str(tmp_path / "data"), "source": "flag"}
    assert settings["kafka.port"] == {"value": 9092, "source": "default"}


def test_the_version() -> None:
    assert Tool().ok("--version").output == Tool().ok("version").output


def test_completion_finds_commands_and_flags() -> None:
    def completed(line: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "stratamq.cli"],
            env={
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": str(ROOT / "src"),
                "_STRATAMQ_COMPLETE": "complete_bash",
                "COMP_WORDS": line,
                "COMP_CWORD": str(len(line.split(" ")) - 1),
            },
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        return done.stdout

    assert "topic" in completed("stratamq to").split()
    assert {"create", "delete"} <= set(completed("stratamq topic ").split())
    assert "--partitions" in completed("stratamq topic create --part").split()


@pytest.mark.parametrize(
    ("line", "asked"),
    [("stratamq ", ""), ("stratamq to", ""), ("stratamq topic ", "topic"), ("s topic c", "topic")],
)
def test_completion_reads_only_the_command_it_needs(line: str, asked: str) -> None:
    env = {"_STRATAMQ_COMPLETE": "complete_bash", "COMP_WORDS": line}
    assert asked_command(["stratamq"], env) == asked


def test_each_command_has_a_line_of_help() -> None:
    shown = Tool().run("--help").output
    for name in COMMANDS:
        assert re.search(rf"^  {name}\s+\w+", shown, re.MULTILINE), name
    assert application("").info.name == "stratamq"


def test_the_docs_have_every_exit_code_and_command() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert documented == {0, *Exit}
    names = []
    for family in COMMANDS.keys() - {"pipeline", "spark"}:
        top: Any = typer.main.get_command(application(family))
        for one in getattr(top.commands[family], "commands", [""]):
            names.append(f"{family} {one}".strip())
    assert [name for name in names if f"`{name}" not in page] == []


def test_variables_of_the_tool_are_no_settings_of_a_node() -> None:
    assert read_env(dict.fromkeys(CLIENT_VARIABLES, "x")) == {}


@pytest.mark.parametrize(
    "module", ["rich", "tomllib", "rocksdict", "stratamq.model.config", "stratamq.node"]
)
def test_a_command_on_a_node_does_not_wait_for(module: str, imported: frozenset[str]) -> None:
    assert "stratamq.cli.topic" in imported
    assert module not in imported


@pytest.fixture(scope="module")
def imported() -> frozenset[str]:
    """The modules of `stratamq topic list` that is about to connect."""
    program = (
        "import sys; sys.argv = ['stratamq', 'topic', 'list']; "
        "import stratamq.cli.entry, stratamq.cli.main; print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    return frozenset(done.stdout.split())
