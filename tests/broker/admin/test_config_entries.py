"""What is told about a setting, and what is not."""

from __future__ import annotations

import pytest

from stratamq.broker.kafka.admin.configs import entries
from stratamq.broker.kafka.admin.configs.entries import (
    ConfigType,
    broker_entries,
    type_of,
)
from stratamq.model.config import ALL_SETTINGS, ConfigSource, NodeConfig, load
from stratamq.model.settings.kafka_names import KAFKA_NAMES
from stratamq.model.settings.setting import Setting

SECRET = Setting(name="ssl.key.password", default="", doc="A secret.")


def test_secrets_stay_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "ALL_SETTINGS", {**ALL_SETTINGS, SECRET.name: SECRET})
    config = NodeConfig(
        {ConfigSource.DEFAULT: load().values, ConfigSource.FILE: {SECRET.name: "hunter2"}}
    )
    (entry,) = (one for one in broker_entries(config) if one.name == SECRET.name)
    assert (entry.value, entry.sensitive, entry.type) == (None, True, ConfigType.PASSWORD)
    assert "hunter2" not in repr(broker_entries(config))


def test_every_name_of_kafkas_stands_for_a_setting_and_for_one_only() -> None:
    assert set(KAFKA_NAMES) <= set(ALL_SETTINGS)
    names = [entry.name for entry in broker_entries(load())]
    assert len(names) == len(set(names)) == len(ALL_SETTINGS)


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        (Setting(name="a", default=True, doc=""), ConfigType.BOOLEAN),
        (Setting(name="a", default=1, doc=""), ConfigType.LONG),
        (Setting(name="a", default=1, maximum=(1 << 31) - 1, doc=""), ConfigType.INT),
        (Setting(name="a", default=1, maximum=1 << 31, doc=""), ConfigType.LONG),
        (Setting(name="a", default="x", doc=""), ConfigType.STRING),
        (Setting(name="a", default="x", choices=("x",), many=True, doc=""), ConfigType.LIST),
        (SECRET, ConfigType.PASSWORD),
    ],
)
def test_types(setting: Setting, kind: ConfigType) -> None:
    assert type_of(setting) is kind
