"""`stratamq doctor --server`: what can be seen of a running node from here, as its clients see it.

Open files, permissions and damage are seen on the node's own machine only: the node looks itself.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from stratamq.cli.failing import ADVICE, Exit, exit_of
from stratamq.cli.tables import counted
from stratamq.client.admin.node_check import check_node
from stratamq.client.admin.topics import log_folders
from stratamq.client.client import Client
from stratamq.client.failures import Refusal, as_ours
from stratamq.client.lake import node_time_ms
from stratamq.client.options import ClientOptions
from stratamq.model.errors import Denied, StrataError, UnsupportedFormat
from stratamq.model.findings import CheckResult, Finding, free_space

CLOCK_S_MAX = 5
"""More between two clocks shows in retention, in time-outs of transactions, and in certificates."""

TROUBLES_SHOWN = 3


async def node_findings(options: ClientOptions) -> list[tuple[str, Finding]]:
    """Without a connection nothing else can be asked."""
    async with Client(options) as client:
        try:
            await client.router.any_node()
        except StrataError as error:
            known = as_ours(error) if isinstance(error, Refusal) else error
            advice = ADVICE.get(exit_of(known), ADVICE[Exit.UNREACHABLE])
            return [("connection", Finding(CheckResult.FAIL, f"{error}. {advice}"))]
        how = "over TLS" if options.tls else "without TLS"
        who = f"as {options.login.user}" if options.login else "without login"
        connected = Finding(CheckResult.OK, f"{', '.join(map(str, options.servers))}, {who}, {how}")
        found = [("connection", connected)]
        for name, check in CHECKS.items():
            try:
                found.append((name, await check(client)))
            except Denied as error:
                found.append((name, Finding(CheckResult.WARN, f"not for this user: {error}")))
            except StrataError as error:
                found.append((name, Finding(CheckResult.FAIL, str(error))))
        return found


async def check_advertised(client: Client) -> Finding:
    """Clients learn these addresses from the first node they reach, and go there."""
    servers = (await client.cluster()).nodes
    for number, server in servers.items():
        try:
            await client.router.node(server)
        except StrataError as error:
            return Finding(
                CheckResult.FAIL,
                f"node {number} sends clients to {server}: {error}. Set kafka.advertised.host and "
                "kafka.advertised.port of the node to an address that its clients can reach",
            )
    return Finding(CheckResult.OK, ", ".join(map(str, servers.values())))


async def check_clock(client: Client) -> Finding:
    """Half of the time that the answer took is its error."""
    asked_s = time.time()
    node_ms = await node_time_ms(client.router)
    took_s = time.time() - asked_s
    if node_ms < 0:
        return Finding(CheckResult.WARN, "the node, of another version, does not say")
    apart_s = node_ms / 1000 - (asked_s + took_s / 2)
    text = f"{abs(apart_s):.1f} s {'ahead of' if apart_s > 0 else 'after'} this machine's"
    if abs(apart_s) > CLOCK_S_MAX + took_s:
        return Finding(CheckResult.WARN, f"the node's clock is {text}: let both follow NTP")
    return Finding(CheckResult.OK, f"the node's clock is {text}")


async def check_space(client: Client) -> Finding:
    folders = await log_folders(client.router)
    return min((free_space(one.usable_bytes, one.log_dir) for one in folders), key=_worst)


def _worst(finding: Finding) -> int:
    return [CheckResult.FAIL, CheckResult.WARN, CheckResult.OK].index(finding.result)


async def check_partitions(client: Client) -> Finding:
    """A partition whose files are damaged or missing has no leader, or its size is unknown."""
    topics = (await client.cluster()).topics.values()
    lost = [
        f"{topic.name}-{one.index}"
        for topic in topics
        for one in topic.partitions
        if one.leader < 0
    ]
    if lost:
        some = ", ".join(lost[:TROUBLES_SHOWN])
        return Finding(
            CheckResult.FAIL,
            f"{counted(len(lost), 'partition')} without a leader: {some}. `stratamq doctor "
            "--data-dir` on the node's machine says why",
        )
    return Finding(CheckResult.OK, f"{counted(len(topics), 'topic')}, all partitions have leaders")


async def check_store(client: Client) -> Finding:
    topics = sorted((await client.cluster()).topics)
    if not topics:
        return Finding(CheckResult.OK, "no topic, so nothing is stored there")
    lake = await client.describe_lake(topics[0])
    if lake.trouble:
        return Finding(CheckResult.FAIL, f"{lake.store_url}: {lake.trouble}")
    return Finding(CheckResult.OK, f"{lake.store_url}: no error")


def check_machine(name: str) -> Callable[[Client], Awaitable[Finding]]:
    """A check that the node makes itself."""

    async def check(client: Client) -> Finding:
        try:
            return await check_node(client.router, name)
        except UnsupportedFormat:
            return Finding(CheckResult.WARN, "the node, of another version, does not say")

    return check


CHECKS: dict[str, Callable[[Client], Awaitable[Finding]]] = {
    "advertised address": check_advertised,
    "clock": check_clock,
    "free space": check_space,
    "partitions": check_partitions,
    "object store": check_store,
    "permissions": check_machine("permissions"),
    "open files": check_machine("open files"),
    "stored data": check_machine("stored data"),
}
