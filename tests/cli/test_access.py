"""A day's work on a node with SASL, TLS and access rules: users, rules, quotas, and the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratamq.client.admin.access import MECHANISMS
from tests.cli.tool import Tool, requires
from tests.clients.node import Node, running
from tests.clients.security import PASSWORD, SECURE, add_users, certificates

RULE = dict.fromkeys(
    ("principal", "permission", "operation", "resource", "name", "pattern", "host"), str
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secure")


@pytest.fixture(scope="module")
def node(folder: Path) -> Iterator[Node]:
    _, server, _ = certificates(folder)
    add_users(folder / "data", "root")
    tls = ("--kafka-tls-certificate", str(server))
    with running(folder / "data", *SECURE, *tls) as node:
        yield node
        assert node.end() == 0, node.logged()


@pytest.fixture(scope="module")
def tool(node: Node, folder: Path) -> Tool:
    """As `root`, by a profile; `alice` is another one."""
    (folder / "password").write_text(PASSWORD + "\n")
    (folder / "password").chmod(0o600)
    common = f'server = "{node.address}"\nca = "ca.pem"\n'
    (folder / "profiles.toml").write_text(
        f'[default]\n{common}user = "root"\npassword_file = "password"\n'
        f'[alice]\n{common}user = "alice"\npassword = "tea for two"\nmechanism = "SCRAM-SHA-512"\n'
        f'[mallory]\n{common}user = "alice"\npassword = "guessed"\n'
        f"[nobody]\n{common}\n"
    )
    (folder / "profiles.toml").chmod(0o600)
    return Tool({"STRATAMQ_PROFILES": str(folder / "profiles.toml")})


def profile(tool: Tool, name: str) -> Tool:
    return Tool({**tool.env, "STRATAMQ_PROFILE": name})


def test_a_day_s_work(tool: Tool, tmp_path: Path) -> None:
    alice = profile(tool, "alice")
    assert "cannot log in" in alice.fails(4, "topic", "list")
    added = tool.json("user", "add", "alice", given="tea for two\n")
    assert added == {"user": "alice", "mechanisms": list(MECHANISMS)}

    tool.ok("topic", "create", "orders", "-p", 2, "-c", "retention.ms=60000000")
    assert "'orders'" in alice.fails(4, "topic", "describe", "orders")
    assert alice.json("topic", "list") == {"topics": []}, "what may not be seen is left out"
    rules = ("-o", "read", "-o", "write", "--topic", "orders")
    tool.ok("acl", "add", "--principal", "alice", *rules)
    tool.ok("acl", "add", "--principal", "alice", "-o", "read", "--group", "kit", "--prefixed")

    file = tmp_path / "orders"
    timed = [{"key": "abc"[n % 3], "value": f"{n}", "timestamp": 10**12 + n} for n in range(9)]
    file.write_text("\n".join(map(json.dumps, timed)))
    assert alice.json("produce", "orders", "--json-lines", "--file", file)["count"] == 9
    words = ("--key", "b", "--from-time", str(10**12 + 2), "--to-time", str(10**12 + 8))
    assert alice.ok("consume", "orders", *words).output == "4\n7\n"

    (described,) = alice.json("topic", "describe", "orders")["topics"]
    assert described["configs"] is None, "alice may not see configs"
    assert {one["bytes"] for one in described["partitions"]} == {None}
    assert "configs: not for this user" in alice.ok("topic", "describe", "orders").output
    assert "'orders'" in alice.fails(4, "topic", "alter", "orders", "-c", "retention.ms=1")
    tool.ok("topic", "alter", "orders", "-p", 3, "-c", "retention.ms=120000000")

    words = ("delete", "orders", "--key", "a", "--yes")
    assert "orders" in alice.fails(4, *words), "DELETE on the topic is needed"
    alice.ok("consume", "orders", "-g", "kitchen", "-n", 4)
    assert alice.json("group", "lag", "kitchen")["lag"] <= 5
    at = ("--to-datetime", "2001-09-09T01:46:40.005Z", "--topic", "orders", "--execute")
    alice.ok("group", "reset", "kitchen", *at)
    again = alice.ok("consume", "orders", "-g", "kitchen").output.split()
    assert sorted(again) == ["5", "6", "7", "8"]
    assert "'bar'" in alice.fails(4, "consume", "orders", "-g", "bar")

    checks = alice.json("doctor", "--profile", "alice")["checks"]
    assert "as alice, over TLS" in checks[0]["text"]
    (space,) = [one for one in checks if one["check"] == "free space"]
    assert space["result"] == "warn", "alice may not DESCRIBE the cluster"
    assert "not for this user" in space["text"]

    tool.ok("quota", "set", "producer_byte_rate=1048576", "--user", "alice")
    tool.ok("user", "remove", "alice", "--yes")
    assert "cannot log in" in alice.fails(4, "topic", "list")


def test_who_cannot_come_in(tool: Tool) -> None:
    said = profile(tool, "mallory").fails(4, "topic", "list")
    assert "cannot log in" in said
    assert "guessed" not in said
    done = profile(tool, "mallory").run("doctor", "--profile", "mallory")
    assert done.code == 1
    assert "fail  connection: " in done.output
    assert "Check user and password" in done.output
    quick = ("--property", "retry.ms=1")
    said = profile(tool, "nobody").fails(3, "topic", "list", *quick)
    assert "closed the connection" in said
    assert "how to log in" in said
    plain = Tool({"STRATAMQ_SERVER": tool_server(tool)})
    plain.fails(3, "topic", "list", *quick)
    untrusted = Tool({"STRATAMQ_SERVER": tool_server(tool), "STRATAMQ_TLS": "true"})
    assert "TLS failed" in untrusted.fails(3, "topic", "list", *quick)


def tool_server(tool: Tool) -> str:
    text = Path(tool.env["STRATAMQ_PROFILES"]).read_text()
    return text.split('server = "')[1].split('"')[0]


def test_users(tool: Tool) -> None:
    one = ("--mechanism", "SCRAM-SHA-512", "--iterations", 8192)
    tool.ok("user", "add", "carol", *one, given="secret\n")
    listed = tool.json("user", "list")
    requires(listed, {"users": [{"name": str, "mechanism": str, "iterations": int}]})
    assert {"name": "carol", "mechanism": "SCRAM-SHA-512", "iterations": 8192} in listed["users"]
    assert "carol" in tool.ok("user", "list").output
    removed = tool.json("user", "remove", "carol", "--yes")
    assert removed == {"user": "carol", "removed": ["SCRAM-SHA-512"]}
    assert "'carol'" in tool.fails(5, "user", "remove", "carol", "--yes")
    assert "empty" in tool.fails(1, "user", "add", "dave", given="\n")
    assert "'MD5'" in tool.fails(2, "user", "add", "dave", "--mechanism", "MD5", given="x\n")
    assert "'dave'" in tool.fails(1, "user", "add", "dave", "--iterations", 1, given="x\n")


def test_rules(tool: Tool) -> None:
    bob = ("--principal", "bob")
    added = tool.json("acl", "add", *bob, "-o", "read", "--topic", "bobs-", "--prefixed")
    rule = {
        "principal": "User:bob",
        "permission": "allow",
        "operation": "read",
        "resource": "topic",
        "name": "bobs-",
        "pattern": "prefixed",
        "host": "*",
    }
    assert added == {"added": [rule]}
    requires(rule, RULE)
    denied = {**rule, "permission": "deny", "operation": "describe-configs", "name": "bobs-x"}
    denied |= {"pattern": "literal", "host": "10.0.0.1"}
    words = ("--deny", "-o", "describe-configs", "--topic", "bobs-x", "--host", "10.0.0.1")
    assert tool.json("acl", "add", *bob, *words) == {"added": [denied]}
    tool.ok("acl", "add", *bob, "-o", "create", "--cluster")

    assert len(tool.json("acl", "list", *bob)["rules"]) == 3
    covering = tool.json("acl", "list", "--topic", "bobs-x")
    assert covering == {"rules": [denied, rule]}
    assert tool.json("acl", "list", "--topic", "bobs-", "--prefixed") == {"rules": [rule]}
    assert tool.json("acl", "list", *bob, "--deny") == {"rules": [denied]}
    assert tool.json("acl", "list", "--cluster", *bob)["rules"][0]["operation"] == "create"
    assert "kafka-cluster" in tool.ok("acl", "list", *bob).output

    assert "Give --yes" in tool.fails(2, "acl", "remove", "--topic", "bobs-x")
    assert tool.json("acl", "remove", "--topic", "bobs-x", "--yes") == {"removed": [denied]}
    assert len(tool.json("acl", "remove", *bob, "--yes")["removed"]) == 2
    assert tool.json("acl", "list", *bob) == {"rules": []}
    assert "no rule is like that" in tool.fails(5, "acl", "remove", *bob, "--yes")
    assert "which rules" in tool.fails(2, "acl", "remove", "--yes")
    assert "a rule needs" in tool.fails(2, "acl", "add", *bob, "-o", "read")
    tool.fails(1, "acl", "add", *bob, "-o", "write", "--group", "g")


def test_quotas(tool: Tool) -> None:
    limits = ("producer_byte_rate=1000", "consumer_byte_rate=2e6")
    done = tool.json("quota", "set", *limits, "--user", "erin")
    rates = {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2_000_000.0}
    assert done == {"user": "erin", "client_id": None, "set": rates}
    tool.ok("quota", "set", "request_percentage=50", "--user", "<default>", "--client-id", "c")
    found = tool.json("quota", "list")["quotas"]
    assert {"user": "erin", "client_id": None, "limits": rates} in found
    limit = {"request_percentage": 50.0}
    assert {"user": "<default>", "client_id": "c", "limits": limit} in found
    assert len(tool.json("quota", "list", "--user", "erin")["quotas"]) == 1
    assert "2000000" in tool.ok("quota", "list", "--user", "erin").output

    remove = ("quota", "remove", "--user", "erin")
    assert tool.json(*remove, "consumer_byte_rate", "--yes") == {
        "user": "erin",
        "client_id": None,
        "removed": ["consumer_byte_rate"],
    }
    assert "no quota nothing" in tool.fails(5, *remove, "nothing", "--yes")
    assert tool.json(*remove, "--yes")["removed"] == ["producer_byte_rate"]
    assert "user erin has no quota" in tool.fails(5, *remove, "--yes")
    assert "whose quota" in tool.fails(2, "quota", "set", "a=1")
    assert "must be a number" in tool.fails(2, "quota", "set", "a=b", "--user", "u")
    tool.fails(1, "quota", "set", "unknown=1", "--user", "u")
