"""kcat, with the old librdkafka of Debian."""

from __future__ import annotations

import json
import subprocess

import pytest

pytestmark = pytest.mark.needs("kcat")
SECONDS_MAX = 30


def kcat(*arguments: str, given: str = "") -> str:
    result = subprocess.run(
        ["kcat", *arguments], input=given, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert result.returncode == 0, result.stderr
    assert "not compressing" not in result.stderr
    return result.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_go_in_and_come_out(kafka: str, topic: str, codec: str) -> None:
    lines = "".join(f"key{number}:value {number}\n" for number in range(100))
    kcat("-b", kafka, "-P", "-t", topic, "-K", ":", "-z", codec, given=lines)
    assert kcat("-b", kafka, "-C", "-t", topic, "-K", ":", "-e", "-q") == lines


def test_metadata_is_listed(kafka: str, topic: str) -> None:
    kcat("-b", kafka, "-P", "-t", topic, given="one\n")
    seen = json.loads(kcat("-b", kafka, "-L", "-J"))
    assert [broker["name"] for broker in seen["brokers"]] == [kafka]
    assert topic in [one["topic"] for one in seen["topics"]]
