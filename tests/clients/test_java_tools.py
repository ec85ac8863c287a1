"""Apache Kafka's command-line tools against our node: what its shell scripts would start."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.node import Node, running
from tests.clients.remote import Remote

pytestmark = [pytest.mark.needs("java", "javac", "mvn"), pytest.mark.timeout(900)]

MAINS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
}
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    flags = ("--group-initial-rebalance-delay-ms", "0", "--topic-flush", "os")
    with running(tmp_path_factory.mktemp("tools"), *flags) as node:
        yield node
        assert node.end() == 0, node.logged()


@pytest.fixture
def tool(java: Remote, kafka: str) -> Tool:
    """Run a tool to its good end; what it printed."""

    def run(name: str, *words: str, stdin: str = "", status: int = 0) -> str:
        args = ["--bootstrap-server", kafka, *words]
        if name == "kafka-producer-perf-test":
            args = [*words, "--producer-props", f"bootstrap.servers={kafka}"]
        if name == "kafka-cluster":
            args = [*words, "--bootstrap-server", kafka]
        done = java.call("tool", main=MAINS[name], args=args, stdin=stdin)
        assert done["status"] == status, done["printed"]
        return str(done["printed"])

    return run


def test_topics_are_made_described_changed_and_deleted(tool: Tool, topic: str) -> None:
    made = tool(
        "kafka-topics",
        *("--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=3600000"),
    )
    assert f"Created topic {topic}." in made
    assert topic in tool("kafka-topics", "--list").split()
    told = tool("kafka-topics", "--describe", "--topic", topic)
    assert re.search(
        r"PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention.ms=3600000", told
    )
    assert len(re.findall(r"Partition: \d\s+Leader: 1\s+Replicas: 1\s+Isr: 1", told)) == 3
    tool("kafka-topics", "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in tool("kafka-topics", "--describe", "--topic", topic)
    tool("kafka-topics", "--delete", "--topic", topic)
    assert topic not in tool("kafka-topics", "--list").split()


def test_a_topic_that_is_there_is_not_made_again(tool: Tool, topic: str) -> None:
    create = ("kafka-topics", "--create", "--topic", topic)
    tool(*create)
    assert f"{topic}' exists" in tool(*create, status=1)
    tool(*create, "--if-not-exists")


def test_the_console_writes_and_reads(tool: Tool, topic: str) -> None:
    keyed = ("parse.key=true", "key.separator=:")
    tool(
        "kafka-console-producer",
        *("--topic", topic, "--property", keyed[0], "--property", keyed[1]),
        stdin="a:1\nb:2\nc:3\n",
    )
    found = tool(
        "kafka-console-consumer",
        *("--topic", topic, "--from-beginning", "--max-messages", "3", "--timeout-ms", "20000"),
        *("--property", "print.key=true", "--property", "print.offset=true"),
    )
    lines = [line for line in found.splitlines() if line.startswith("Offset:")]
    assert lines == ["Offset:0\ta\t1", "Offset:1\tb\t2", "Offset:2\tc\t3"]


def test_groups_are_listed_described_reset_and_deleted(tool: Tool, topic: str) -> None:
    group = f"g-{topic}"
    tool("kafka-console-producer", "--topic", topic, stdin="1\n2\n3\n")
    tool(
        "kafka-console-consumer",
        *("--topic", topic, "--group", group, "--from-beginning"),
        *("--max-messages", "2", "--timeout-ms", "20000"),
    )
    assert group in tool("kafka-consumer-groups", "--list").split()
    told = tool("kafka-consumer-groups", "--describe", "--group", group)
    current, end, lag = re.search(rf"{topic}\s+0\s+(\d+)\s+(\d+)\s+(\d+)", told).groups()  # type: ignore[union-attr]
    assert (current, end, lag) == ("2", "3", "1")
    reset = ("--reset-offsets", "--to-earliest", "--topic", topic, "--execute")
    tool("kafka-consumer-groups", "--group", group, *reset)
    told = tool("kafka-consumer-groups", "--describe", "--group", group)
    assert re.search(rf"{topic}\s+0\s+0\s+3\s+3", told)
    tool("kafka-consumer-groups", "--delete", "--group", group)
    assert group not in tool("kafka-consumer-groups", "--list").split()


def test_configs_are_set_and_unset(tool: Tool, topic: str) -> None:
    tool("kafka-topics", "--create", "--topic", topic)
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    tool(
        "kafka-configs",
        *of_topic,
        "--alter",
        "--add-config",
        "cleanup.policy=compact,flush=interval",
    )
    told = tool("kafka-configs", *of_topic, "--describe")
    assert "cleanup.policy=compact" in told
    assert "flush=interval" in told
    tool("kafka-configs", *of_topic, "--alter", "--delete-config", "cleanup.policy")
    assert "cleanup.policy=compact" not in tool("kafka-configs", *of_topic, "--describe")
    broker = tool(
        "kafka-configs", "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all"
    )
    assert "advertised.listeners=" in broker


def test_brokers_are_configured_while_they_run(tool: Tool, new_topic: Callable[[], str]) -> None:
    one, every = ("--entity-type", "brokers", "--entity-name", "1"), ("--entity-type", "brokers")
    every = (*every, "--entity-default")
    tool("kafka-configs", *every, "--alter", "--add-config", "num.partitions=4")
    assert "num.partitions=4" in tool("kafka-configs", *every, "--describe")
    tool("kafka-configs", *one, "--alter", "--add-config", "num.partitions=5,log.retention.ms=7")
    described = tool("kafka-configs", *one, "--describe")
    assert "DYNAMIC_BROKER_CONFIG:num.partitions=5" in described
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:num.partitions=4" in described
    topic = new_topic()
    tool("kafka-topics", "--create", "--topic", topic)
    assert "PartitionCount: 5" in tool("kafka-topics", "--describe", "--topic", topic)
    names = "num.partitions,log.retention.ms"
    tool("kafka-configs", *one, "--alter", "--delete-config", names)
    tool("kafka-configs", *every, "--alter", "--delete-config", "num.partitions")
    assert "num.partitions" not in tool("kafka-configs", *one, "--describe")
    refused = tool("kafka-configs", *one, "--alter", "--add-config", "log.dirs=/x", status=1)
    assert "log.dirs cannot be altered while the node runs" in refused


def test_offsets_are_told_and_records_deleted(tool: Tool, topic: str, tmp_path: Path) -> None:
    tool("kafka-console-producer", "--topic", topic, stdin="1\n2\n3\n")
    assert f"{topic}:0:3" in tool("kafka-get-offsets", "--topic", topic)
    which = tmp_path / "which.json"
    which.write_text(f'{{"partitions": [{{"topic": "{topic}", "partition": 0, "offset": 2}}]}}')
    assert "low_watermark: 2" in tool("kafka-delete-records", "--offset-json-file", str(which))
    assert f"{topic}:0:2" in tool("kafka-get-offsets", "--topic", topic, "--time", "earliest")


def test_the_node_tells_about_itself(tool: Tool, topic: str, kafka: str) -> None:
    tool("kafka-console-producer", "--topic", topic, stdin="1\n")
    versions = tool("kafka-broker-api-versions")
    assert f"{kafka} (id: 1" in versions
    assert re.search(r"Produce\(0\): ", versions)
    assert "Cluster ID: " in tool("kafka-cluster", "cluster-id")
    assert f'"{topic}-0"' in tool("kafka-log-dirs", "--describe", "--topic-list", topic)


def test_the_quorum_and_the_features(tool: Tool) -> None:
    status = tool("kafka-metadata-quorum", "describe", "--status")
    assert re.search(r"LeaderId:\s+1\n", status)
    assert re.search(r"MaxFollowerLag:\s+0\n", status)
    assert re.search(r"CurrentVoters:\s+\[.*1.*\]", status)
    (row,) = tool("kafka-metadata-quorum", "describe", "--replication").splitlines()[1:]
    assert re.match(r"1\s+\S+\s+\d+\s+0\s+\d+\s+\d+\s+Leader", row)
    features = tool("kafka-features", "describe")
    assert re.search(r"Feature: group.version\s.*FinalizedVersionLevel: 1\s", features)
    refused = tool("kafka-features", "upgrade", "--feature", "group.version=2", status=1)
    assert "it is fixed at 1" in refused
    refused = tool("kafka-cluster", "unregister", "--id", "7", status=1)
    assert "not currently registered" in refused


def test_replicas_are_moved_to_where_they_are(tool: Tool, topic: str, tmp_path: Path) -> None:
    tool("kafka-topics", "--create", "--topic", topic)
    told = tool("kafka-log-dirs", "--describe", "--topic-list", topic)
    (folder,) = re.findall(r'"logDir":"([^"]+)"', told)
    for place, done in ((folder, True), ("/nowhere", False)):
        plan = tmp_path / "plan.json"
        one = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [place]}
        plan.write_text(json.dumps({"version": 1, "partitions": [one]}))
        file = ("--reassignment-json-file", str(plan), "--timeout", "1", "--throttle", "1000")
        printed = tool("kafka-reassign-partitions", *file, "--execute", status=0 if done else 1)
        assert ("Successfully started moving log directory" in printed) == done, printed
        tool("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--verify")
    one = ("--entity-type", "brokers", "--entity-name", "1")
    assert "throttled" not in tool("kafka-configs", *one, "--describe"), "verifying takes it back"


def test_the_load_tools_run(tool: Tool, topic: str) -> None:
    load = ("--num-records", "5000", "--record-size", "100", "--throughput", "-1")
    sent = tool("kafka-producer-perf-test", "--topic", topic, *load)
    assert "5000 records sent" in sent
    read = tool("kafka-consumer-perf-test", "--topic", topic, "--messages", "5000")
    assert re.search(r"^\d{4}-.*, 5000, ", read, re.M)


def test_configs_of_a_group_are_changed(tool: Tool, topic: str) -> None:
    group = ("--entity-type", "groups", "--entity-name", f"g-{topic}")
    tool("kafka-configs", "--alter", *group, "--add-config", "consumer.session.timeout.ms=50000")
    told = tool("kafka-configs", "--describe", *group)
    assert re.search(r"consumer.session.timeout.ms=50000 .*DYNAMIC_GROUP_CONFIG", told)
    tool("kafka-configs", "--alter", *group, "--delete-config", "consumer.session.timeout.ms")
    assert "50000" not in tool("kafka-configs", "--describe", *group)
