"""Hadoop's NameNode and a DataNode from Maven Central, each a process of its own, on loopback."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.peers.s3 import free_port
from tests.waiting import wait_until

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
JARS = HERE.parents[2] / "build" / f"hdfs-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
FETCH_SECONDS_MAX = 600
START_SECONDS_MAX = 90
NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
LIVE = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """`host:port` of the NameNode's WebHDFS, for as long as both run."""
    http = f"127.0.0.1:{free_port()}"
    _configure(folder, http)
    java = _java(folder)
    with (folder / "log").open("wb") as log:
        subprocess.run(
            [*java, NAME_NODE, "-format", "-nonInteractive"],
            check=True,
            stdout=log,
            stderr=log,
            timeout=START_SECONDS_MAX,
        )
        nodes = [
            subprocess.Popen([*java, name], stdout=log, stderr=log)
            for name in (NAME_NODE, DATA_NODE)
        ]
        try:
            _wait(http, nodes, folder / "log")
            yield http
        finally:
            for node in nodes:
                node.kill()
                node.wait()


def _configure(folder: Path, http: str) -> None:
    _write_xml(
        folder / "core-site.xml",
        {
            "fs.defaultFS": f"hdfs://127.0.0.1:{free_port()}",
            "hadoop.tmp.dir": str(folder / "data"),
        },
    )
    _write_xml(
        folder / "hdfs-site.xml",
        {
            "dfs.namenode.http-address": http,
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.replication": "1",
            "dfs.permissions.enabled": "false",
            "dfs.namenode.safemode.extension": "0",
            "dfs.ls.limit": "3",
        },
    )
    for name in ("hdfs", "datanode"):  # their web pages, which the jars do not bring
        (folder / "webapps" / name).mkdir(parents=True)


def _write_xml(path: Path, properties: dict[str, str]) -> None:
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    path.write_text(f"<configuration>{rows}</configuration>")


def _java(folder: Path) -> list[str]:
    return [
        "java",
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        "-cp",
        f"{folder}:{_jars()}/*",
    ]


def _wait(http: str, nodes: list[subprocess.Popen[bytes]], log: Path) -> None:
    def is_up() -> bool:
        assert all(node.poll() is None for node in nodes), log.read_text()[-2000:]
        with contextlib.suppress(urllib.error.URLError, OSError):
            with urllib.request.urlopen(f"http://{http}{LIVE}", timeout=5) as answer:
                beans = json.load(answer)["beans"]
            return bool(beans) and beans[0]["NumLiveDataNodes"] == 1
        return False

    wait_until(is_up, "HDFS comes up", START_SECONDS_MAX)


def _jars() -> Path:
    """The first caller fetches them; others, in other processes too, wait for it."""
    JARS.mkdir(parents=True, exist_ok=True)
    done = JARS / "done"
    with (JARS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            subprocess.run(
                [
                    "mvn",
                    "--batch-mode",
                    "--quiet",
                    f"--file={POM}",
                    "dependency:copy-dependencies",
                    "-DincludeScope=runtime",
                    f"-DoutputDirectory={JARS}",
                ],
                check=True,
                timeout=FETCH_SECONDS_MAX,
            )
            done.touch()
    return JARS
