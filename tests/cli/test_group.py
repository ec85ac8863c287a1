"""`stratamq group` on a real node, with members of both protocols."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from stratamq.cli.failing import UsageError
from stratamq.cli.group import GroupProgress
from stratamq.cli.group_reset import ResetGoal
from stratamq.client import TopicPartition
from tests.cli.tool import SECONDS_MAX, Tool, requires
from tests.clients.node import Node

_numbers = itertools.count()
START_MS = 1_700_000_000_000

OFFSET = {
    "topic": str,
    "partition": int,
    "committed": int,
    "end": int,
    "lag": int,
    "member": str | None,
}


@pytest.fixture
def topic(tool: Tool) -> str:
    """Ten records in partition 0 of two, a second apart."""
    name = f"read-{next(_numbers)}"
    tool.ok("topic", "create", name, "-p", 2)
    timed = [{"value": f"{n}", "timestamp": START_MS + n * 1000} for n in range(10)]
    tool.ok("produce", name, "--json-lines", "-p", 0, given="\n".join(map(json.dumps, timed)))
    return name


@pytest.fixture
def group(tool: Tool, topic: str) -> str:
    """Has read four of ten."""
    tool.ok("consume", topic, "-g", f"{topic}-group", "-n", 4)
    return f"{topic}-group"


def offsets(tool: Tool, group: str) -> dict[int, int]:
    found = tool.json("group", "lag", group)["offsets"]
    return {one["partition"]: one["committed"] for one in found}


@contextmanager
def member(node: Node, group: str, topic: str, protocol: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": node.address,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "client.id": "tester",
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic])
        for _ in range(SECONDS_MAX * 10):
            if consumer.assignment():
                break
            consumer.poll(0.1)
        assert consumer.assignment(), "the group never assigned anything"
        yield consumer
    finally:
        consumer.close()


def test_groups_are_listed(tool: Tool, group: str) -> None:
    listed = tool.json("group", "list")
    requires(listed, {"groups": [{"name": str, "state": str, "type": str, "protocol": str}]})
    (ours,) = [one for one in listed["groups"] if one["name"] == group]
    assert (ours["state"], ours["type"]) == ("Empty", "classic")
    assert group in tool.ok("group", "list").output


def test_lag(tool: Tool, group: str, topic: str) -> None:
    lag = tool.json("group", "lag", group)
    requires(lag, {"group": str, "lag": int, "offsets": [OFFSET]})
    assert lag["lag"] == 6
    assert lag["offsets"] == [
        {
            "topic": topic,
            "partition": 0,
            "committed": 4,
            "end": 10,
            "lag": 6,
            "member": None,
        }
    ]
    assert f"group {group}: lag 6 in all" in tool.ok("group", "lag", group).output


def test_there_is_no_lag_without_a_commit_or_a_log() -> None:
    place = TopicPartition("t", 0)
    assert GroupProgress(place, None, 10, None).lag is None
    assert GroupProgress(place, 4, None, None).lag is None
    assert GroupProgress(place, 12, 10, None).lag == 0, "the log was cut meanwhile"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_live_group_is_described_and_left_alone(
    node: Node, tool: Tool, topic: str, group: str, protocol: str
) -> None:
    with member(node, group, topic, protocol):
        (found,) = tool.json("group", "describe", group)["groups"]
        place = {"topic": str, "partition": int}
        requires(
            found["members"],
            [
                {
                    "id": str,
                    "instance": None | str,
                    "client_id": str,
                    "host": str,
                    "partitions": [place],
                }
            ],
        )
        assert found.keys() == {
            *("name", "state", "type", "assignor", "members", "offsets", "lag"),
        }
        assert (found["state"], found["type"]) == ("Stable", protocol)
        assert found["members"][0]["client_id"] == "tester"
        assert len(found["members"][0]["partitions"]) == 2
        assert found["offsets"][0]["member"] == found["members"][0]["id"]
        assert "127.0.0.1" in tool.ok("group", "describe", group).output
        for words in (["reset", group, "--to-earliest", "--yes"], ["delete", group, "--yes"]):
            said = tool.fails(1, "group", *words)
            assert "is in use: state Stable, 1 member. Stop its consumers first" in said
        assert "has members" in tool.fails(1, "consume", topic, "-g", group)
        assert offsets(tool, group)[0] == 4
    assert tool.json("group", "reset", group, "--to-earliest", "--yes")["executed"] is True


@pytest.mark.parametrize(
    ("words", "new"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 10),
        (["--to-offset", 7], 7),
        (["--to-offset", 99], 10),
        (["--to-datetime", "2023-11-14T22:13:25.001Z"], 6),
        (["--to-datetime", "-1m"], 10),
        (["--shift-by", "-3"], 1),
        (["--shift-by", "+2"], 6),
        (["--shift-by", "-99"], 0),
    ],
)
def test_a_reset_shows_its_plan_and_then_does_it(
    tool: Tool, topic: str, group: str, words: list[object], new: int
) -> None:
    change = {"topic": topic, "partition": 0, "current": 4, "new": new}
    plan = tool.json("group", "reset", group, *words)
    assert plan == {"group": group, "executed": False, "offsets": [change]}
    assert offsets(tool, group) == {0: 4}
    done = tool.json("group", "reset", group, *words, "--execute")
    assert done == {"group": group, "executed": True, "offsets": [change]}
    assert offsets(tool, group) == {0: new}


def test_a_reset_of_some_partitions_and_of_a_new_group(tool: Tool, topic: str, group: str) -> None:
    tool.ok("group", "reset", group, "--to-latest", "--topic", f"{topic}:1", "-y")
    assert offsets(tool, group) == {0: 4, 1: 0}
    tool.ok("group", "reset", f"{group}-new", "--to-latest", "--topic", topic, "-y")
    assert offsets(tool, f"{group}-new") == {0: 10, 1: 0}
    text = tool.ok("group", "reset", group, "--shift-by", "1").output
    assert "nothing was changed: --execute applies this" in text


def test_a_group_is_deleted(tool: Tool, group: str) -> None:
    assert tool.json("group", "delete", group, "--yes") == {"deleted": [group]}
    assert group not in [one["name"] for one in tool.json("group", "list")["groups"]]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["describe", "nobody"], 5, "nobody"),
        (["lag", "nobody"], 5, "nobody"),
        (["delete", "nobody", "--yes"], 5, "nobody"),
        (["reset", "nobody", "--to-latest"], 5, "nobody"),
        (["reset", "GROUP"], 2, "say where to"),
        (["reset", "GROUP", "--to-latest", "--to-earliest"], 2, "say where to"),
        (["reset", "GROUP", "--to-offset", 0, "--shift-by", 0], 2, "say where to"),
        (["reset", "GROUP", "--to-datetime", "soon"], 2, "time 'soon'"),
        (["reset", "GROUP", "--to-latest", "--topic", "none"], 5, "there is no topic 'none'"),
        (["reset", "GROUP", "--to-latest", "--topic", "TOPIC:7"], 5, "has 2 partitions"),
        (["reset", "GROUP", "--to-latest", "--topic", "TOPIC:x"], 2, "is not TOPIC or"),
        (["delete", "GROUP"], 2, "Give --yes"),
    ],
)
def test_what_is_refused_says_why(
    tool: Tool, topic: str, group: str, words: list[object], code: int, said: str
) -> None:
    named = [str(word).replace("GROUP", group).replace("TOPIC", topic) for word in words]
    assert said in tool.fails(code, "group", *named)


def test_zero_is_a_goal() -> None:
    ResetGoal(offset=0).check()
    assert ResetGoal(offset=0).within(5, 0, 10, -1) == 0
    ResetGoal(shift=0).check()
    assert ResetGoal(shift=1).within(None, 3, 10, -1) == 4
    with pytest.raises(UsageError):
        ResetGoal().check()
