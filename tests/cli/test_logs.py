"""Logs are one line per event, for people or for machines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from stratamq.cli import logs
from stratamq.model.config import load
from tests.waiting import every


@pytest.fixture(autouse=True)
def root_logger_left_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level


def logged(level: str = "info", form: str = "text") -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    logs.setup(load(flags={"log.level": level, "log.format": form}), stream)
    return logging.getLogger("stratamq.test"), stream


def test_text_ends_in_fields_and_quotes_what_would_be_misread() -> None:
    log, stream = logged()
    log.info("stopped", extra={"fields": {"took_ms": 12, "path": "a b", "empty": ""}})
    when, *rest = stream.getvalue().split(" ", 1)
    assert when.endswith("Z")
    assert rest == ['info stratamq.test stopped took_ms=12 path="a b" empty=""\n']


def test_json_is_one_object_per_line() -> None:
    log, stream = logged(form="json")
    log.warning("odd\nname", extra={"fields": {"shard": "t_0", "level": "hidden"}})
    (line,) = stream.getvalue().splitlines()
    event = json.loads(line)
    assert event.pop("time").endswith("Z")
    assert event == {
        "level": "warning",
        "logger": "stratamq.test",
        "event": "odd\nname",
        "shard": "t_0",
    }


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_trace_is_kept(form: str) -> None:
    log, stream = logged(form=form)
    try:
        raise ValueError("deep down")
    except ValueError:
        log.exception("failed")
    assert "ValueError: deep down" in stream.getvalue()


def test_below_the_level_nothing_is_said() -> None:
    log, stream = logged(level="error")
    log.warning("never mind")
    assert stream.getvalue() == ""


FORGED = "x\n2026-01-01T00:00:00.000Z info stratamq.node forged\r\x1b[2J\u2028\x85"


def test_names_of_clients_cannot_forge_a_line_or_reach_a_terminal() -> None:
    log, stream = logged()
    log.info("refused %s", FORGED, extra={"fields": {"client": FORGED, "odd": "\x1b[2J"}})
    try:
        raise ValueError(FORGED)
    except ValueError:
        log.exception("failed")
    first, second, *trace = stream.getvalue().split("\n")
    assert r"refused x\n2026" in first
    assert r'client="x\n2026-01-01T00:00:00.000Z info' in first
    assert r'odd="\u001b[2J"' in first
    assert second.endswith(" failed")
    assert any("forged" in line for line in trace)
    assert all(line.startswith("    ") for line in trace if line)
    assert all(c == "\n" or c.isprintable() for c in every(stream.getvalue()))


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_is_very_long_is_cut(form: str) -> None:
    log, stream = logged(form=form)
    log.info("%s", "e" * 32_000, extra={"fields": {"client": "\n" * 32_000, "count": 10**9}})
    assert len(stream.getvalue()) < 4000
    assert "(32000 characters)" in stream.getvalue()
    assert "1000000000" in stream.getvalue()
