"""Every setting is a flag; a wrong one is refused before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from stratamq.cli.flags import with_config
from stratamq.model.config import ALL_SETTINGS, ConfigSource, NodeConfig, env_name, flag_name

runner = CliRunner()
app = typer.Typer(pretty_exceptions_enable=False)
seen: list[NodeConfig] = []


@app.command("note")
def other() -> None:
    """A second command, so that the first keeps its name."""


app.command("keep")(with_config(lambda config: seen.append(config)))


def keep(*arguments: str, **env: str) -> NodeConfig:
    seen.clear()
    result = runner.invoke(app, ["keep", *arguments], env=env)
    assert result.exit_code == 0, result.output
    return seen[0]


def refused(*arguments: str, **env: str) -> str:
    seen.clear()
    result = runner.invoke(app, ["keep", *arguments], env=env)
    assert result.exit_code == 2
    assert seen == []
    return result.output


def test_every_setting_can_be_given_as_a_flag() -> None:
    arguments = []
    for name, setting in ALL_SETTINGS.items():
        arguments += [flag_name(name), str(setting.default)]
    config = keep(*arguments)
    assert set(config.sources.values()) == {ConfigSource.FLAG}
    assert config.values == {name: setting.default for name, setting in ALL_SETTINGS.items()}


def test_a_flag_wins_over_the_environment_and_the_file(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("kafka.port = 1\nmqtt.port = 1\nconsole.port = 1")
    env = {env_name("mqtt.port"): "2", env_name("console.port"): "2"}
    config = keep("--config", str(file), "--console-port", "3", **env)
    ports = [config.number(f"{front}.port") for front in ("kafka", "mqtt", "console")]
    assert ports == [1, 2, 3]


def test_a_bad_value_is_refused_by_name() -> None:
    assert "kafka.port: 'x' is not a whole number" in refused("--kafka-port", "x")


def test_an_unknown_flag_is_refused_with_the_nearest() -> None:
    assert "--kafka-port" in refused("--kafka-prot", "1")


def test_an_unknown_variable_is_refused_with_the_nearest() -> None:
    assert "STRATAMQ_KAFKA_PORT" in refused(STRATAMQ_KAFKA_PROT="1")


def test_an_unknown_name_in_the_file_is_refused_with_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("kafka.prot = 1")
    assert "did you mean 'kafka.port'?" in refused("--config", str(file)).replace("\n", "")


def test_a_command_may_have_flags_of_its_own() -> None:
    said: list[tuple[int, bool]] = []

    def command(config: NodeConfig, loud: bool = False) -> None:
        said.append((config.number("node.id"), loud))

    own = typer.Typer()
    own.command("say")(with_config(command))
    own.command("note")(other)
    result = runner.invoke(own, ["say", "--loud", "--node-id", "4"])
    assert result.exit_code == 0, result.output
    assert said == [(4, True)]


@pytest.mark.parametrize("flag", ["--data-dir", "--kafka-port", "--topic-retention-ms"])
def test_help_shows_the_flags(flag: str) -> None:
    assert flag in runner.invoke(app, ["keep", "--help"], env={"COLUMNS": "200"}).output
