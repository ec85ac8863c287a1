"""A stream whose options are wrong says so at its first use: before that Spark would not listen."""

from __future__ import annotations

import pytest

from stratamq.spark import StrataMQError, StrataMQSource
from stratamq.spark.columns import SCHEMA
from stratamq.spark.failures import HIDE

FIRST = ("getDefaultReadLimit", "initialOffset", "prepareForTriggerAvailableNow")
"""What Spark asks for first, by the kind of query."""


@pytest.mark.parametrize("method", FIRST)
def test_a_wrong_option(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HIDE, "")  # set for the worker that Spark ends; this process lives on
    reader = StrataMQSource({"servers": "h:1", "topc": "orders"}).streamReader(SCHEMA)
    with pytest.raises(StrataMQError, match=r"no option 'topc'; did you mean 'topic'\?"):
        getattr(reader, method)()
    reader.stop()
