"""docs/kafka-compatibility.md says what the code's tables say, and leaves nothing of Kafka out."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from pathlib import Path
from types import ModuleType

import kio.schema
import pytest

from stratamq.broker.kafka.api_versions import NOT_SERVED
from stratamq.model.config import ALL_SETTINGS
from stratamq.model.settings.kafka_names import (
    BROKER_REFUSED,
    KAFKA_NAMES,
    SAME_NAMES,
    TOPIC_REFUSED,
)
from stratamq.model.settings.topic import TOPIC_SETTINGS
from stratamq.wire.kafka.protocol import APIS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("page", ROOT / "scripts/compatibility_page.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(script: ModuleType) -> None:
    assert script.PAGE.read_text() == script.page(), "run `make docs`"


def test_the_readme_links_to_it() -> None:
    assert "(docs/kafka-compatibility.md)" in (ROOT / "README.md").read_text()


def test_every_api_of_kafkas_is_served_or_has_a_reason() -> None:
    """kio's modules are made from Kafka's own schemas, one for each API."""
    kafkas = {
        one.name.replace("_", "")
        for one in pkgutil.iter_modules(kio.schema.__path__)
        if one.ispkg and _has_request(one.name)
    }
    served = {api.name.lower() for key, api in APIS.items() if key < 32_000}
    others = {name.lower() for names in NOT_SERVED.values() for name in names.split()}
    assert len(kafkas) > 80
    assert kafkas == served | others
    assert not served & others


def _has_request(name: str) -> bool:
    module = importlib.import_module(f"kio.schema.{name}")
    newest = max(one.name for one in pkgutil.iter_modules(module.__path__))
    found = importlib.import_module(f"kio.schema.{name}.{newest}")
    return any(one.name == "request" for one in pkgutil.iter_modules(found.__path__))


def test_a_config_is_a_setting_or_refused_and_never_both(script: ModuleType) -> None:
    assert set(SAME_NAMES) <= set(ALL_SETTINGS)
    assert not (SAME_NAMES | set(KAFKA_NAMES.values())) & set(BROKER_REFUSED)
    assert not set(TOPIC_SETTINGS) & set(TOPIC_REFUSED)
    assert set(TOPIC_SETTINGS) >= script.TOPIC_ONLY_OURS


def test_every_config_is_there_once(script: ModuleType) -> None:
    for rows, least in ((script.topic_rows(), 30), (script.broker_rows(), 300)):
        names = [row.name for row in rows]
        assert len(names) == len(set(names)) >= least
