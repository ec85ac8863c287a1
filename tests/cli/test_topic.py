"""`stratamq topic` on a real node."""

from __future__ import annotations

import pytest

from tests.cli.tool import Tool, requires


def test_a_topic_is_created_listed_and_deleted(tool: Tool) -> None:
    created = tool.json("topic", "create", "a.first", "-p", 3, "-c", "retention.ms=60000")
    assert created == {"topic": "a.first", "created": True, "partitions": 3, "replicas": 1}
    listed = tool.json("topic", "list")["topics"]
    assert {"name": "a.first", "partitions": 3, "replicas": 1, "internal": False} in listed
    table = tool.ok("topic", "list").output.splitlines()
    assert table[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS"]
    assert ["a.first", "3", "1"] in [line.split() for line in table]
    assert tool.json("topic", "delete", "a.first", "--yes") == {"deleted": ["a.first"]}
    assert "a.first" not in tool.ok("topic", "list").output


def test_a_name_that_is_taken(tool: Tool) -> None:
    tool.ok("topic", "create", "taken", "-p", 2)
    assert "'taken'" in tool.fails(6, "topic", "create", "taken")
    again = tool.json("topic", "create", "taken", "-p", 7, "--if-not-exists")
    assert again == {"topic": "taken", "created": False, "partitions": 2, "replicas": 1}


def test_a_description_has_all_that_the_protocol_gives(tool: Tool) -> None:
    tool.ok("topic", "create", "seen", "-p", 2, "-c", "retention.ms=60000")
    (topic,) = tool.json("topic", "describe", "seen")["topics"]
    partition = {
        "partition": int,
        "leader": int,
        "replicas": [int],
        "isr": [int],
        "start": int,
        "end": int,
        "bytes": int,
    }
    config = {"value": str, "source": str}
    configs = dict.fromkeys(topic["configs"], config)
    shape = {"name": str, "id": str, "internal": bool, "partitions": [partition]}
    requires(topic, {**shape, "configs": configs})
    assert topic["configs"]["retention.ms"] == {"value": "60000", "source": "topic"}
    assert topic["configs"]["flush"]["source"] == "node", "the node was started with --topic-flush"
    assert "cleanup.policy" not in topic["configs"], "has its default"
    (whole,) = tool.json("topic", "describe", "seen", "--all-configs")["topics"]
    assert whole["configs"]["cleanup.policy"]["source"] == "default"
    text = tool.ok("topic", "describe", "seen").output
    assert text.startswith("topic seen, id ")
    assert "retention.ms  60000" in text


def test_a_topic_is_altered(tool: Tool) -> None:
    tool.ok("topic", "create", "grows", "-c", "retention.ms=60000", "-p", 1)
    words = ("--partitions", 4, "-c", "segment.bytes=1048576", "--unset", "retention.ms")
    assert tool.json("topic", "alter", "grows", *words) == {
        "topic": "grows",
        "partitions": 4,
        "set": {"segment.bytes": "1048576"},
        "unset": ["retention.ms"],
    }
    configs = tool.json("topic", "describe", "grows")["topics"][0]["configs"]
    assert configs["segment.bytes"]["value"] == "1048576"
    assert "retention.ms" not in configs


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["describe", "nowhere"], 5, "there is no topic 'nowhere'"),
        (["alter", "nowhere", "--partitions", 2], 5, "there is no topic 'nowhere'"),
        (["delete", "nowhere", "--yes"], 5, "there is no topic 'nowhere'"),
        (["alter", "kept"], 2, "nothing to alter"),
        (["alter", "kept", "-c", "x=1", "--unset", "x"], 2, "both set and unset"),
        (["alter", "kept", "-c", "x"], 2, "--config takes name=value"),
        (["alter", "kept", "-c", "retention.mss=1"], 1, "retention.ms"),
        (["alter", "kept", "--partitions", 1], 1, "'kept'"),
        (["create", "bad name"], 1, "bad name"),
        (["create", "none", "-c", "retention.ms=soon"], 1, "retention.ms"),
        (["delete", "kept"], 2, "Give --yes"),
    ],
)
def test_what_is_refused_says_why(tool: Tool, words: list[object], code: int, said: str) -> None:
    tool.ok("topic", "create", "kept", "-p", 2, "--if-not-exists")
    assert said in tool.fails(code, "topic", *words)
    assert tool.json("topic", "describe", "kept")["topics"][0]["partitions"][1:], "as it was"


def test_a_long_name_is_never_cut(tool: Tool) -> None:
    name = "n" * 200
    tool.ok("topic", "create", name)
    assert name in tool.ok("topic", "list").output
    tool.ok("topic", "delete", name, "-y")


def test_rules_on_a_node_without_them(tool: Tool) -> None:
    for words in (["list"], ["add", "--principal", "u", "-o", "read", "--topic", "t"]):
        said = tool.fails(1, "acl", *words)
        assert "no authorizer is configured" in said
        assert "--authorizer acl" in said
