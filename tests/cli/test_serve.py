"""Start in order, stop in reverse, obey signals. The parts are recorders; the process is real."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stratamq.model.config import NodeConfig, load
from stratamq.node.server import Address, ready_line, serve

ROOT = Path(__file__).resolve().parents[2]


class Part:
    """A core or a front that writes down what happens to it."""

    def __init__(self, name: str, story: list[str], *, broken: bool = False) -> None:
        self.name, self.story, self.broken = name, story, broken

    async def start(self) -> Address:
        if self.broken:
            raise OSError("address in use")
        self.story.append(f"{self.name} up")
        return Address(self.name, "127.0.0.1", 1234)

    async def stop(self) -> None:
        self.story.append(f"{self.name} down")


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    return load(flags={"data.dir": str(tmp_path), "node.id": 7})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_up_in_order_and_down_in_reverse(config: NodeConfig, number: signal.Signals) -> None:
    story: list[str] = []
    core, *fronts = (Part(name, story) for name in ("core", "kafka", "mqtt"))

    def announce(line: str) -> None:
        story.append(line)
        os.kill(os.getpid(), number)

    await asyncio.wait_for(serve(config, core, fronts, announce), 10)
    line = f"ready kafka=127.0.0.1:1234 mqtt=127.0.0.1:1234 data={config.data_dir} node=7"
    ups, downs = ["core up", "kafka up", "mqtt up"], ["mqtt down", "kafka down", "core down"]
    assert story == [*ups, line, *downs]


async def test_a_front_that_cannot_start_takes_down_what_had(config: NodeConfig) -> None:
    story: list[str] = []
    fronts = [Part("kafka", story), Part("mqtt", story, broken=True)]
    with pytest.raises(OSError, match="address in use"):
        await serve(config, Part("core", story), fronts, story.append)
    assert story == ["core up", "kafka up", "kafka down", "core down"]


async def test_signals_are_given_back(config: NodeConfig) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def stop(line: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    await asyncio.wait_for(serve(config, Part("core", []), [], stop), 10)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_front_that_is_not_there_is_not_named(config: NodeConfig) -> None:
    assert ready_line(config, []) == f"ready data={config.data_dir} node=7"


HANGING = """
import asyncio, sys, time
from stratamq.model.config import load
from stratamq.node.server import serve

class Core:
    async def start(self): pass
    async def stop(self):
        print("stopping", flush=True)
        {hang}

config = load(flags={{"data.dir": sys.argv[1], "shutdown.grace.ms": sys.argv[2]}})
asyncio.run(serve(config, Core(), [], lambda line: print(line, flush=True)))
"""


def start_hanging(folder: Path, grace_ms: int, hang: str) -> subprocess.Popen[str]:
    """A node whose core does not come down; waits until it is asked to."""
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING.format(hang=hang), str(folder), str(grace_ms)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert process.stdout
    assert process.stdout.readline().startswith("ready ")
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "stopping\n"
    return process


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    process = start_hanging(tmp_path, 60_000, "await asyncio.sleep(60)")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "ended at once" in errors


@pytest.mark.parametrize("hang", ["await asyncio.sleep(60)", "time.sleep(60)"])
def test_a_stop_that_takes_too_long_is_ended(tmp_path: Path, hang: str) -> None:
    process = start_hanging(tmp_path, 200, hang)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "ended at once" in errors
