"""`stratamq delete` on a real node: records go by key or offset, for every reader."""

from __future__ import annotations

import base64

import pytest

from tests.cli.test_terminal import answered
from tests.cli.tool import Tool, requires


def filled(tool: Tool, topic: str, partitions: int = 1) -> Tool:
    tool.ok("topic", "create", topic, "-p", partitions)
    lines = "".join(f"{'abc'[number % 3]}:{number}\n" for number in range(9))
    tool.ok("produce", topic, "-K", ":", given=lines)
    return tool


def values(tool: Tool, topic: str) -> list[str]:
    return sorted(tool.ok("consume", topic).output.split())


def test_a_key_goes_from_all_partitions(tool: Tool) -> None:
    filled(tool, "keys", 3)
    done = tool.json("delete", "keys", "--key", "b", "--yes")
    requires(
        done, {"topic": str, "deleted": int, "partitions": [{"partition": int, "deleted": int}]}
    )
    assert done["deleted"] == 3
    assert sorted(one["deleted"] for one in done["partitions"]) == [0, 0, 3]
    assert values(tool, "keys") == ["0", "2", "3", "5", "6", "8"]
    again = tool.ok("delete", "keys", "--key", "b", "--yes").output
    assert again == "keys: 0 records deleted\n", "repeating it is no failure"


def test_a_record_goes_by_its_offset(tool: Tool) -> None:
    filled(tool, "offsets")
    said = tool.ok("delete", "offsets", "--offset", 4, "--yes").output
    assert "offsets: 1 record deleted\n" in said
    assert "Their bytes go later" in said
    assert values(tool, "offsets") == ["0", "1", "2", "3", "5", "6", "7", "8"]
    words = ("delete", "offsets", "--partition", 0, "--yes", "--offset")
    assert tool.json(*words, 4)["deleted"] == 0
    assert tool.json(*words, 99)["deleted"] == 0, "nothing is there yet"


def test_a_key_that_is_no_text(tool: Tool) -> None:
    tool.ok("topic", "create", "binary")
    key = base64.b64encode(b"\xff\x00").decode()
    tool.ok(
        "produce",
        "binary",
        "--json-lines",
        given=f'{{"key": {{"base64": "{key}"}}, "value": "v"}}\n',
    )
    assert tool.json("delete", "binary", "--key-base64", key, "--yes")["deleted"] == 1
    assert values(tool, "binary") == []


def test_deleted_stays_deleted_in_a_group_s_lag_and_after_more_records(tool: Tool) -> None:
    filled(tool, "more")
    tool.ok("delete", "more", "--key", "c", "--yes")
    tool.ok("produce", "more", "-K", ":", given="c:new\n")
    assert "new" in values(tool, "more"), "only what was there is deleted"
    assert not {"2", "5", "8"} & set(values(tool, "more"))


@pytest.mark.parametrize(
    ("code", "words", "said"),
    [
        (2, ["slips"], "name what to delete"),
        (2, ["slips", "--key", "a", "--offset", "1"], "name what to delete"),
        (2, ["slips", "--key", "a", "--key-base64", "YQ=="], "exclude each other"),
        (2, ["slips", "--key-base64", "?"], "is not base64"),
        (2, ["slips", "--offset", "1"], "--offset needs --partition"),
        (5, ["slips", "--offset", "1", "--partition", "7"], "has 2 partitions, and no 7"),
        (5, ["nowhere", "--key", "a"], "'nowhere'"),
    ],
)
def test_slips(tool: Tool, code: int, words: list[str], said: str) -> None:
    tool.ok("topic", "create", "slips", "-p", 2, "--if-not-exists")
    assert said in tool.fails(code, "delete", *words, "--yes")


def test_it_asks_first(tool: Tool) -> None:
    filled(tool, "asked.first")
    assert "Give --yes" in tool.fails(2, "delete", "asked.first", "--key", "a")
    code, said = answered(tool, "n\n", "delete", "asked.first", "--key", "a")
    assert code == 1
    assert "Delete all records of key 'a' of asked.first-0? This cannot be undone." in said
    assert len(values(tool, "asked.first")) == 9
    assert answered(tool, "y\n", "delete", "asked.first", "--key", "a")[0] == 0
    assert len(values(tool, "asked.first")) == 6
