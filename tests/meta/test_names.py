from __future__ import annotations

import pytest

from stratamq.meta.groups import check_group_name
from stratamq.meta.topics import check_topic_name
from stratamq.model.errors import InvalidName


@pytest.mark.parametrize("name", ["a", "Orders-2.eu_west", "...", "x" * 249, "_", "-"])
def test_kafka_takes_these_and_so_do_we(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a:b", "a\x00b", "+", "#"]
)
def test_kafka_refuses_these_and_so_do_we(name: str) -> None:
    with pytest.raises(InvalidName):
        check_topic_name(name)


def test_group_names_may_be_anything_but_empty_or_huge() -> None:
    check_group_name("ünser/group 1")
    for name in ("", "ä" * 513):
        with pytest.raises(InvalidName):
            check_group_name(name)
