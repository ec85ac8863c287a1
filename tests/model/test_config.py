"""One name, three places, one meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratamq.model.config import (
    ALL_SETTINGS,
    ConfigSource,
    NodeConfig,
    env_name,
    flag_name,
    load,
    read_env,
    read_file,
)
from stratamq.model.errors import InvalidConfig


def write(folder: Path, text: str) -> Path:
    path = folder / "node.toml"
    path.write_text(text)
    return path


def port(config: NodeConfig) -> tuple[int, ConfigSource]:
    return config.number("kafka.port"), config.sources["kafka.port"]


def test_defaults_alone() -> None:
    config = load()
    assert port(config) == (9092, ConfigSource.DEFAULT)
    assert config.values == {name: setting.default for name, setting in ALL_SETTINGS.items()}


def test_each_place_wins_over_the_one_below(tmp_path: Path) -> None:
    file = write(tmp_path, "kafka.port = 1")
    env = {"STRATAMQ_KAFKA_PORT": "2"}
    assert port(load(file)) == (1, ConfigSource.FILE)
    assert port(load(file, env)) == (2, ConfigSource.ENVIRONMENT)
    assert port(load(file, env, {"kafka.port": "3"})) == (3, ConfigSource.FLAG)


def test_places_are_merged_setting_by_setting(tmp_path: Path) -> None:
    config = load(write(tmp_path, "mqtt.port = 1\nkafka.port = 1"), flags={"kafka.port": 2})
    assert (config.number("mqtt.port"), config.number("kafka.port")) == (1, 2)


@pytest.mark.parametrize(
    "text", ["kafka.port = 7", "[kafka]\nport = 7", '"kafka.port" = 7', 'kafka.port = "7"']
)
def test_the_file_may_use_tables_dots_or_quotes(tmp_path: Path, text: str) -> None:
    assert read_file(write(tmp_path, text)) == {"kafka.port": 7}


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "kafka.port = 5")
    assert port(load(env={"STRATAMQ_CONFIG": str(file)})) == (5, ConfigSource.FILE)


def test_a_named_file_wins_over_the_environment_s(tmp_path: Path) -> None:
    env = {"STRATAMQ_CONFIG": str(tmp_path / "nowhere.toml")}
    assert port(load(write(tmp_path, "kafka.port = 5"), env)) == (5, ConfigSource.FILE)


def test_variables_of_others_are_not_ours() -> None:
    assert read_env({"PATH": "/bin", "KAFKA_PORT": "1", "XSTRATAMQ_KAFKA_PORT": "1"}) == {}


def test_an_unknown_name_in_the_file_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"node\.toml: .*'kafka\.prot'.*'kafka\.port'"):
        load(write(tmp_path, "[kafka]\nprot = 1"))


def test_an_unknown_variable_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidConfig, match=r"the environment: .*STRATAMQ_KAFKA_PORT"):
        load(env={"STRATAMQ_KAFKA_PROT": "1"})


def test_an_unknown_flag_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidConfig, match=r"a flag: .*'data\.dir'"):
        load(flags={"data.dirr": "x"})


def test_an_unknown_topic_setting_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"'topic\.retention\.ms'"):
        load(write(tmp_path, '[topic]\n"retention.sm" = 1'))


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("kafka.port", "many", "not a whole number"),
        ("kafka.port", "65536", "above 65535"),
        ("kafka.port", "-1", "below 0"),
        ("reader.threads", "0", "below 1"),
        ("log.level", "loud", "not one of debug, info"),
        ("memory.full", "explode", "not one of evict, refuse"),
        ("topic.index.key", "maybe", "not true or false"),
    ],
)
def test_a_bad_value_is_refused_by_name_and_place(name: str, value: str, complaint: str) -> None:
    with pytest.raises(InvalidConfig, match=f"the environment: {name}: .*{complaint}"):
        load(env={env_name(name): value})


@pytest.mark.parametrize("text", ["kafka.port = ", "kafka.port = 1\nkafka.port = 2", "= 3"])
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidConfig, match="is not TOML"):
        load(write(tmp_path, text))


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidConfig, match="is not TOML"):
        load(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"nowhere\.toml: cannot be read"):
        load(tmp_path / "nowhere.toml")


def test_topic_defaults_hold_only_what_was_said(tmp_path: Path) -> None:
    text = '[topic]\nflush = "interval"\n"flush.ms" = 200'
    config = load(write(tmp_path, text), {"STRATAMQ_TOPIC_RETENTION_MS": "60000"})
    assert config.topic_defaults.given == {
        "flush": "interval",
        "flush.ms": 200,
        "retention.ms": 60_000,
    }


def test_the_data_folder_may_be_below_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert load(flags={"data.dir": "~/mq"}).data_dir == Path("/home/ada/mq")


def test_every_setting_can_be_given_in_every_place(tmp_path: Path) -> None:
    names = list(ALL_SETTINGS)
    assert len({env_name(name) for name in names}) == len(names)
    assert len({flag_name(name) for name in names}) == len(names)
    default = {name: str(setting.default) for name, setting in ALL_SETTINGS.items()}
    from_env = load(env={env_name(name): value for name, value in default.items()})
    assert from_env.values == load().values
    assert set(from_env.sources.values()) == {ConfigSource.ENVIRONMENT}


def test_defaults_pass_their_own_checks_and_every_setting_is_described() -> None:
    for name, setting in ALL_SETTINGS.items():
        assert setting.parse(setting.default) == setting.default
        assert setting.doc.endswith("."), name
