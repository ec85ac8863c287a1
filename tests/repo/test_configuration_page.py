"""docs/configuration.md says what the settings tables say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from stratamq.model.config import ALL_SETTINGS, TOPIC_PREFIX

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("page", ROOT / "scripts/configuration_page.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(script: ModuleType) -> None:
    assert script.PAGE.read_text() == script.page(), "run `make docs`"


def test_the_page_names_every_setting(script: ModuleType) -> None:
    page = script.PAGE.read_text()
    for name in ALL_SETTINGS:
        assert f"| `{name.removeprefix(TOPIC_PREFIX)}` |" in page
