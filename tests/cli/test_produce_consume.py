"""`stratamq produce` and `consume` on a real node."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from pathlib import Path

import pytest

from stratamq.cli.line_producer import BATCH_BYTES_MAX, batches_of
from stratamq.client import Client, TopicPartition, options_of
from stratamq.model.record import Record
from stratamq.wire.kafka.partitioner import partition_for_key
from tests.cli.tool import SECONDS_MAX, Tool, requires
from tests.clients.node import Node

_numbers = itertools.count()


@pytest.fixture
def topic(tool: Tool) -> str:
    name = f"lines-{next(_numbers)}"
    tool.ok("topic", "create", name, "-p", 3)
    return name


def lines(tool: Tool, topic: str, *words: object) -> list[str]:
    return tool.ok("consume", topic, *words).output.splitlines()


def test_lines_become_records(tool: Tool, topic: str) -> None:
    stored = tool.json("produce", topic, "-p", 1, given="a\nb\r\n\nlast")
    assert stored == {
        "topic": topic,
        "count": 4,
        "last": {"partition": 1, "offset": 3},
        "partitions": [{"partition": 1, "count": 4, "last_offset": 3}],
    }
    assert lines(tool, topic) == ["a", "b", "", "last"]
    said = tool.ok("produce", topic, "-p", 1, given="x\n").output
    assert said == f"{topic}: 1 record stored, the last in partition 1 at offset 4\n"


def test_nothing_to_store(tool: Tool, topic: str) -> None:
    stored = tool.json("produce", topic, given="")
    assert stored == {"topic": topic, "count": 0, "last": None, "partitions": []}
    assert lines(tool, topic) == []


def test_keys_choose_the_partition_as_kafka_s_clients_do(tool: Tool, topic: str) -> None:
    keys = [f"key-{number}" for number in range(20)]
    tool.ok("produce", topic, "-K", r"\t", given="".join(f"{key}\tv\n" for key in keys))
    for partition in range(3):
        expected = [key for key in keys if partition_for_key(key.encode(), 3) == partition]
        assert lines(tool, topic, "-p", partition, "--format", "{key}") == expected


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_file_with_headers_and_tags(
    tool: Tool, topic: str, tmp_path: Path, compression: str
) -> None:
    file = tmp_path / "input"
    file.write_text("".join(f"{number}\n" for number in range(5000)))
    words = ("-H", "a=1", "-H", "b=2", "--tag", "hot", "--compression", compression, "--acks", "1")
    assert tool.json("produce", topic, "--file", file, *words)["count"] == 5000
    assert lines(tool, topic) == file.read_text().splitlines()
    (first,) = lines(tool, topic, "-n", 1, "--format", "{headers} {tags} {value}")
    assert first == "a=1,b=2 hot 0"


def test_json_goes_from_topic_to_topic(tool: Tool, topic: str) -> None:
    given = [
        {"key": "a", "value": "1", "tags": ["t"], "timestamp": 1_700_000_000_000},
        {"key": {"base64": "/w=="}, "value": None, "headers": [["h", "x"]]},
    ]
    tool.ok("produce", topic, "--json-lines", "-p", 0, given="\n".join(map(json.dumps, given)))
    copied = tool.ok("consume", topic, "--json").output
    tool.ok("topic", "create", f"{topic}-copy")
    tool.ok("produce", f"{topic}-copy", "--json-lines", given=copied)
    again = [json.loads(line) for line in lines(tool, f"{topic}-copy", "--json")]
    for old, new in zip(map(json.loads, copied.splitlines()), again, strict=True):
        assert {**old, "topic": new["topic"], "partition": new["partition"]} == new
    assert again[0]["timestamp"] == 1_700_000_000_000
    requires(
        again[0],
        {
            "topic": str,
            "partition": int,
            "offset": int,
            "timestamp": int,
            "time": str,
            "key": str,
            "value": str,
            "headers": list,
            "tags": list,
        },
    )


def test_where_to_begin_and_end(tool: Tool, topic: str) -> None:
    timed = [{"value": f"{n}", "timestamp": 1_700_000_000_000 + n * 1000} for n in range(10)]
    tool.ok("produce", topic, "--json-lines", "-p", 0, given="\n".join(map(json.dumps, timed)))
    for words, expected in {
        ("-o", "7"): "789",
        ("-o", "-2"): "89",
        ("-o", "latest"): "",
        ("-o", "earliest", "-n", "2"): "01",
        ("--from-time", "1700000004000"): "456789",
        ("--from-time", "2023-11-14T22:13:24Z", "--to-time", "1700000006500"): "456",
        ("--from-time", "-1m"): "",
        ("--to-time", "2023-11-14"): "",
    }.items():
        assert "".join(lines(tool, topic, *words)) == expected, words


def test_by_a_key_that_is_no_text(tool: Tool, topic: str) -> None:
    records = [{"key": {"base64": "/w=="}, "value": "1"}, {"key": "a", "value": "2"}]
    tool.ok("produce", topic, "--json-lines", given="".join(f"{json.dumps(r)}\n" for r in records))
    assert lines(tool, topic, "--key-base64", "/w==") == ["1"]
    assert lines(tool, topic, "--key", os.fsdecode(b"\xff")) == ["1"], "as a shell gives it"
    assert "is not base64" in tool.fails(2, "consume", topic, "--key-base64", "x")
    assert "exclude" in tool.fails(2, "consume", topic, "--key-base64", "/w==", "--key", "a")


def test_by_key_and_by_tag(tool: Tool, topic: str) -> None:
    tool.ok("produce", topic, "-K", ":", "--tag", "hot", given="a:1\nb:2\na:3\n")
    tool.ok("produce", topic, "-K", ":", "--tag", "hotter", given="a:4\nb:5\n")
    assert lines(tool, topic, "--key", "a") == ["1", "3", "4"]
    assert sorted(lines(tool, topic, "--tag", "hotter")) == ["4", "5"]
    assert lines(tool, topic, "--tag", "hot", "--key", "b") == ["2"]


def test_a_group_goes_on_where_it_was(tool: Tool, topic: str) -> None:
    group = f"group-of-{topic}"
    tool.ok("produce", topic, "-p", 2, given="1\n2\n3\n4\n")
    assert lines(tool, topic, "-g", group, "-n", 2) == ["1", "2"]
    assert lines(tool, topic, "-g", group, "-n", 1) == ["3"]
    assert lines(tool, topic, "-g", group) == ["4"]
    assert lines(tool, topic, "-g", group) == []
    assert lines(tool, topic) == ["1", "2", "3", "4"], "without the group, all"


async def test_records_that_were_deleted_meanwhile_are_named(
    node: Node, tool: Tool, topic: str
) -> None:
    group = f"group-of-{topic}"
    await asyncio.to_thread(tool.ok, "produce", topic, "-p", 0, given="1\n2\n3\n4\n5\n")
    await asyncio.to_thread(lines, tool, topic, "-g", group, "-n", 1)
    async with Client(options_of(node.address, {})) as client:
        await client.delete_records(TopicPartition(topic, 0), 3)
    done = await asyncio.to_thread(tool.run, "consume", topic, "-g", group)
    assert (done.code, done.output) == (0, "4\n5\n"), done
    assert f"{topic}-0: offsets 1 to 2 were deleted and are left out" in done.errors


async def test_aborted_records_are_shown_only_when_asked_for(
    node: Node, tool: Tool, topic: str
) -> None:
    async with Client(options_of(node.address, {})) as client:
        for word, commit in ((b"no", False), (b"yes", True)):
            transaction = await client.begin(f"id-of-{topic}")
            await transaction.send(TopicPartition(topic, 0), [Record(value=word)])
            await transaction.end(commit=commit)
    assert await asyncio.to_thread(lines, tool, topic) == ["yes"]
    assert await asyncio.to_thread(lines, tool, topic, "--uncommitted") == ["no", "yes"]


def test_following_ends_quietly_at_ctrl_c_and_keeps_the_group(tool: Tool, topic: str) -> None:
    group = f"group-of-{topic}"
    tool.ok("produce", topic, given="first\n")
    process = tool.process("consume", topic, "-f", "-g", group)
    assert process.stdout
    assert process.stdout.readline() == b"first\n"
    tool.ok("produce", topic, given="second\n")
    assert process.stdout.readline() == b"second\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=SECONDS_MAX) == (b"", b"")
    assert process.returncode == 130
    assert lines(tool, topic, "-g", group) == []


def test_a_closed_pipe_ends_it_quietly(tool: Tool, topic: str) -> None:
    tool.ok("produce", topic, given="x" * 100 + "\n" + "line\n" * 50_000)
    process = tool.process("consume", topic)
    assert process.stdout
    assert process.stdout.readline() == b"x" * 100 + b"\n"
    process.stdout.close()
    assert process.wait(timeout=SECONDS_MAX) == 141
    assert process.stderr
    assert process.stderr.read() == b""
    process.stderr.close()
    if process.stdin:
        process.stdin.close()


def test_input_that_comes_slowly_is_stored_as_it_comes(tool: Tool, topic: str) -> None:
    process = tool.process("produce", topic, "-p", 0)
    assert process.stdin
    for number in range(3):
        process.stdin.write(b"%d\n" % number)
        process.stdin.flush()
        follower = tool.run("consume", topic, "-f", "-o", number, "-n", 1, "-p", 0)
        assert follower.output == f"{number}\n", follower
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=SECONDS_MAX) == (b"", b"")
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("words", "given", "code", "said"),
    [
        (["produce", "nowhere"], "x", 5, "there is no topic 'nowhere'"),
        (["produce", "TOPIC", "-p", 9], "x", 5, "has 3 partitions, and no 9"),
        (["produce", "TOPIC", "--file", "/nowhere"], "", 2, "/nowhere cannot be read"),
        (["produce", "TOPIC", "--header", "x"], "x", 2, "--header takes name=value"),
        (["produce", "TOPIC", "--json-lines", "-K", ":"], "x", 2, "give no flags"),
        (["produce", "TOPIC", "-K", ":"], "a:1\nb\n", 1, "line 2 cannot be read: it has no ':'"),
        (["produce", "TOPIC"], "x" * 2_000_000, 1, "produce to "),
        (["consume", "nowhere"], "", 5, "there is no topic 'nowhere'"),
        (["consume", "TOPIC", "-p", 9], "", 5, "has 3 partitions, and no 9"),
        (["consume", "TOPIC", "-o", "first"], "", 2, "offset 'first' is not earliest"),
        (["consume", "TOPIC", "-o", "99"], "", 1, "offset 99 is outside 0.."),
        (["consume", "TOPIC", "--from-time", "x"], "", 2, "time 'x' is not like"),
        (["consume", "TOPIC", "--from-time", "now", "-o", "1"], "", 2, "give one of them"),
        (["consume", "TOPIC", "--to-time", "now", "-f"], "", 2, "give one of them"),
        (["consume", "TOPIC", "--format", "{x}"], "", 2, "{x} in the format"),
    ],
)
def test_what_is_refused_says_why(
    tool: Tool, topic: str, words: list[object], given: str, code: int, said: str
) -> None:
    named = [topic if word == "TOPIC" else word for word in words]
    assert said in tool.fails(code, *named, given=given)


def test_lines_before_a_bad_one_are_stored_and_counted(tool: Tool, topic: str) -> None:
    said = tool.fails(1, "produce", topic, "-K", ":", given="a:1\nb:2\nc\nd:4\n")
    assert "line 3 cannot be read" in said
    assert "Stored before: 2 records." in said
    assert sorted(lines(tool, topic)) == ["1", "2"]


def test_batches_are_small_enough_for_a_node() -> None:
    records = [Record(value=b"x" * 300_000)] * 3 + [Record(value=b"x" * (BATCH_BYTES_MAX * 2))]
    assert [len(batch) for batch in batches_of(records)] == [1, 1, 1, 1]
    assert [len(batch) for batch in batches_of([Record(value=b"")] * 25_000)] == [
        10000,
        10000,
        5000,
    ]
