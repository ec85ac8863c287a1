"""A Spark Connect session for pipelines: on this machine, on a cluster, or a server's."""

from __future__ import annotations

import os
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder

from stratamq.model.errors import StrataError
from stratamq.spark.machine import check_java, check_master, check_server
from stratamq.spark.session import LOOPBACK, PATIENT, is_local
from stratamq.spark.union import register

LOG = "spark.log"
STDERR = 2


def connect(
    folder: Path, *, master: str, remote: str | None, settings: Mapping[str, str]
) -> SparkSession:
    """Connect to the running server `remote`, else start one, whose driver is here.

    A driver of its own keeps tables and their catalog in `folder`, so that the next run finds them,
    and writes its messages to a log file there.
    """
    if remote is not None:
        check_server(remote)
    else:
        check_java()
        check_master(master)
    given = {**({} if remote else _own(folder, master)), **settings}
    builder = SparkSession.builder.appName(folder.name)
    for name, value in given.items():
        builder = builder.config(name, value)
    if remote is None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    try:
        with quiet(folder / LOG):
            return register(builder.remote(remote or master).getOrCreate())
    except (PySparkException, Py4JError) as error:
        why = str(error).strip().splitlines()
        found = next((line for line in why if "Exception: " in line), why[0] if why else "")
        raise StrataError(f"Spark did not start ({folder / LOG} has more): {found}") from None


def _own(folder: Path, master: str) -> dict[str, str]:
    metastore = folder / "metastore"
    port = _free_port()
    # PySpark knows one port for servers of its own, and a second run on the machine needs another.
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)  # type: ignore[method-assign]
    found = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.api.mode": "connect",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={metastore};create=true"
        ),
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={folder / 'derby.log'}",
        "spark.sql.connect.serverStacktrace.enabled": "false",
        **PATIENT,
    }
    if is_local(master):
        found |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return found


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind((LOOPBACK, 0))
        return int(asked.getsockname()[1])


@contextmanager
def quiet(log: Path) -> Iterator[None]:
    """A JVM that is started meanwhile writes to `log` what it would write to the terminal."""
    sys.stderr.flush()
    kept = os.dup(STDERR)
    with log.open("ab") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # settings that only a new server takes warn each client
        os.dup2(file.fileno(), STDERR)
        try:
            yield
        finally:
            os.dup2(kept, STDERR)
            os.close(kept)
