"""`stratamq doctor`: is this machine fit to run the configured node? With `--server`: is that node?

A `fail` means that the node would not start or would not keep its promises; a `warn` means that
something will be missing or slow.
"""

from __future__ import annotations

import asyncio
import os

import typer

from stratamq.cli.command import (
    JSON,
    PROFILE,
    PROPERTY,
    SERVER,
    Report,
    as_sentences,
    properties_of,
    show,
)
from stratamq.cli.profiles import options_for
from stratamq.model.config import NodeConfig
from stratamq.model.findings import CheckResult


def print_findings(
    config: NodeConfig,
    as_json: JSON = False,
    server: SERVER = None,
    profile: PROFILE = None,
    property: PROPERTY = None,
) -> None:
    """Check what a node needs, and its stored data: folder, space, open files, clock, damage, Java.
    With --server or --profile, check a running node as its clients see it. Exits 1 on a fail."""
    if server or profile:
        from stratamq.cli.doctor_node import node_findings

        with as_sentences(debug=False):
            options = options_for(server, profile, properties_of(property or ()), os.environ)
            findings = asyncio.run(node_findings(options))
    else:
        from stratamq.cli.doctor_machine import CHECKS  # needs what a node needs

        findings = [(name, check(config)) for name, check in CHECKS.items()]
    data = [{"check": name, "result": one.result, "text": one.text} for name, one in findings]
    lines = [f"{one.result:<5} {name}: {one.text}" for name, one in findings]
    show(Report({"checks": data}, lines), as_json=as_json)
    if any(finding.result is CheckResult.FAIL for _, finding in findings):
        raise typer.Exit(1)
