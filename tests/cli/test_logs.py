"""Logs are one line per event, for people or for machines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from stratamq.cli import logs
from stratamq.model.config import load


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
