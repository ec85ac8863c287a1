"""The Kafka front, put together: families, broker, server; and registered in the Meta Service."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stratamq.broker.kafka.admin.family import Admin
from stratamq.broker.kafka.answer_budget import AnswerBudget
from stratamq.broker.kafka.backup import BackupApi, Backups
from stratamq.broker.kafka.broker import KafkaBroker
from stratamq.broker.kafka.contract import Family, Services
from stratamq.broker.kafka.fetch import Fetch
from stratamq.broker.kafka.groups.coordinator import GroupCoordinator
from stratamq.broker.kafka.groups.family import Groups
from stratamq.broker.kafka.lake import LakeApis
from stratamq.broker.kafka.log_offsets import LogOffsets
from stratamq.broker.kafka.metadata import Metadata
from stratamq.broker.kafka.node_check import NodeCheckApi
from stratamq.broker.kafka.partitions import Partitions
from stratamq.broker.kafka.produce.api import Produce
from stratamq.broker.kafka.quotas.api import ClientQuotas
from stratamq.broker.kafka.quotas.manager import ClientQuotaManager, QuotaWindows
from stratamq.broker.kafka.security.access import Access
from stratamq.broker.kafka.transactions.family import TransactionApis
from stratamq.meta.nodes import RegisterNode
from stratamq.model.config import NodeConfig
from stratamq.model.errors import InvalidConfig
from stratamq.model.findings import Finding
from stratamq.net.listener import ConnectionLimits, is_loopback, reachable_name
from stratamq.net.tls import ClientAuth, TlsContext, server_context
from stratamq.node.core import NodeCore
from stratamq.node.identity import cluster_id, sasl_secret
from stratamq.server.kafka.auth import NoSasl
from stratamq.server.kafka.refusals import Refusals
from stratamq.server.kafka.server import KafkaServer, ServerLimits
from stratamq.server.kafka.watch import RequestWatch

if TYPE_CHECKING:
    from stratamq.server.kafka.audit_log import AuditLog
    from stratamq.server.kafka.spans import RequestSpans

log = logging.getLogger("stratamq.node")

KAFKA = "kafka"


class Address(NamedTuple):
    """Where a front is reached on this machine, and what clients elsewhere are given, where that
    is another address."""

    name: str
    host: str
    port: int
    advertised: Address | None = None

    def __str__(self) -> str:
        text = f"{self.name}={self.host}:{self.port}"
        if (other := self.advertised) is not None:
            text += f" advertised={other.host}:{other.port}"
        return text


GRACE_SHARE = 0.5
"""Of `shutdown.grace.ms`, for connections to finish; the rest is for the storage."""


class KafkaFront:
    """A Front. Made before the core is started, started after it. `refusals` counts requests that
    were refused; `server` and `groups` are there from its start on, for those who count."""

    def __init__(self, config: NodeConfig, core: NodeCore) -> None:
        self._config, self._core = config, core
        self.refusals, self.watch = Refusals(), RequestWatch()
        self.server: KafkaServer | None = None
        self.groups: GroupCoordinator | None = None
        self._started = contextlib.AsyncExitStack()

    async def start(self) -> Address:
        async with contextlib.AsyncExitStack() as started:
            address = await self._start(started)
            self._started = started.pop_all()
        return address

    async def _start(self, started: contextlib.AsyncExitStack) -> Address:
        config, services = self._config, services_of(self._core)
        fetch = Fetch(services, services.answers)
        name, secret = await asyncio.gather(  # the first start syncs both
            asyncio.to_thread(cluster_id, config.data_dir, self._core.doors),
            asyncio.to_thread(sasl_secret, config.data_dir, self._core.doors),
        )
        access = Access(services, secret)
        audit, spans = audit_log(config), request_spans(config)
        access.logins.audit = audit
        for observer in (audit, spans):
            if observer is not None:
                started.push_async_callback(observer.close)
        self.watch = RequestWatch(spans)
        groups = Groups(services, visibility=access)
        transactions = TransactionApis(services, groups)
        metadata = Metadata(services, name, *([] if audit is None else [audit.created]))
        data = [
            metadata,
            *families(services, transactions),
            LakeApis(services, self._core.tiering),
            BackupApi(self._make_backups),
            NodeCheckApi(self._machine_check),
        ]
        broker = KafkaBroker(
            [access, ClientQuotas(services.meta, access.cache), *data, groups, transactions, fetch],
            None if access.sasl is None else access.sasl.served,
            guard=access.guard,
        )
        server = self._make_server(broker, services, access, audit)
        await broker.start()
        started.push_async_callback(broker.stop)
        host, port = await server.start(config.text("host"), config.number("kafka.port"))
        started.push_async_callback(self._stop_server, server, fetch, groups)
        advertised = await self._advertise(port)
        warn_if_open(config, host)
        self._core.configs.listen(lambda: self._limit(server))
        self._limit(server)
        self.server, self.groups = server, groups.coordinator
        here = Address(KAFKA, reachable_name(host), port)
        return here if here == advertised else here._replace(advertised=advertised)

    def _make_server(
        self, broker: KafkaBroker, services: Services, access: Access, audit: AuditLog | None
    ) -> KafkaServer:
        config, now_s = self._config, self._core.doors.now_s
        quotas = ClientQuotaManager(access.cache, quota_windows(config), lambda: now_s() * 1000)
        access.cache.listen_for_quotas(quotas.look)
        return KafkaServer(
            broker,
            services.answers,
            server_limits(config),
            security=access.sasl or NoSasl(access.principals.principal, access.logins),
            quotas=quotas,
            tls=tls_context(config),
            refusals=self.refusals,
            watch=self.watch,
            logins=access.logins,
            audit=audit,
        )

    def _make_backups(self) -> Backups:
        """Imported when the first one is asked for: a start does not wait for it."""
        from stratamq.node.backup import NodeBackups

        return NodeBackups(self._core)

    def _machine_check(self, name: str) -> Finding:
        from stratamq.node.machine_checks import machine_check  # few ask

        return machine_check(self._config, name)

    async def reload(self) -> None:
        """Read the files of TLS again, for connections from now on. Files that cannot be used
        change nothing."""
        try:
            tls = await asyncio.to_thread(tls_context, self._config)
        except InvalidConfig as error:
            log.error("the certificate stays as it was: %s", error)
            return
        if tls is not None and self.server is not None:
            self.server.use_tls(tls)
            log.info("certificates were read again")

    async def stop(self) -> None:
        await self._started.aclose()

    async def _stop_server(self, server: KafkaServer, fetch: Fetch, groups: Groups) -> None:
        """Requests that wait for records or for members are answered, or they would hold up the
        stop."""
        await server.stop_accepting()
        fetch.wake_all()
        groups.wake_all()
        await server.stop(self._config.number("shutdown.grace.ms") / 1000 * GRACE_SHARE)

    def _limit(self, server: KafkaServer) -> None:
        """Limit the connections as configured, and to no more than there are descriptors for."""
        self.watch.limit(self._config.number("log.slow.ms"))
        limits = connection_limits(self._config)
        allowed = self._core.descriptors.connections_max(limits.connections_max)
        server.limit_connections(replace(limits, connections_max=allowed))

    async def _advertise(self, port: int) -> Address:
        """Register where clients find this node, which may be another address than we listen on."""
        config = self._config
        host = config.text("kafka.advertised.host") or reachable_name(config.text("host"))
        port = config.number("kafka.advertised.port") or port
        registered = RegisterNode(node_id=self._core.node_id, address=f"{host}:{port}")
        await self._core.meta.submit(registered)
        return Address(KAFKA, host, port)


def warn_if_open(config: NodeConfig, host: str) -> None:
    """A node that other machines reach should ask who they are."""
    asks = config.text("sasl.enabled.mechanisms") or (
        config.text("kafka.tls.certificate") and config.text("kafka.tls.client.auth") == "required"
    )
    if not asks and not is_loopback(host):
        log.warning(
            "every machine that reaches %s may read and write all topics: set"
            " sasl.enabled.mechanisms or kafka.tls.client.auth, see docs/security.md",
            host,
        )


def services_of(core: NodeCore) -> Services:
    return Services(
        node_id=core.node_id,
        config=core.config,
        configs=core.configs,
        clock=core.doors.clock,
        entropy=core.doors.entropy,
        disk_usage=core.doors.disk_usage,
        meta=core.meta,
        topics=core.topics,
        broker_cache=core.broker_cache,
        storage_cache=core.storage_cache,
        drivers=core.drivers,
        offsets=core.groups,
        partitions=Partitions(core.broker_cache, core.storage_cache, core.drivers),
        answers=AnswerBudget(
            core.config.number("kafka.response.bytes.max"),
            core.config.number("kafka.answer.bytes.max"),
        ),
    )


def families(services: Services, transactions: TransactionApis) -> Sequence[Family]:
    return [
        Produce(services, transactions.verifier),
        LogOffsets(services),
        Admin(services),
    ]


def audit_log(config: NodeConfig) -> AuditLog | None:
    if (target := config.text("audit.log")) == "off":
        return None
    from stratamq.server.kafka.audit_log import AuditLog  # a start without it is quicker

    return AuditLog(target)


def request_spans(config: NodeConfig) -> RequestSpans | None:
    if not (endpoint := config.text("otel.endpoint")):
        return None
    try:
        ratio = float(text := config.text("otel.sample.ratio"))
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise InvalidConfig(f"otel.sample.ratio: {text!r} is not a number from 0 to 1")
    if not endpoint.startswith(("http://", "https://")):
        raise InvalidConfig(f"otel.endpoint: {endpoint!r} does not begin with http:// or https://")
    try:
        from stratamq.server.kafka.spans import RequestSpans
    except ModuleNotFoundError:
        raise InvalidConfig(
            "otel.endpoint needs OpenTelemetry, which is not installed: "
            "pip install 'stratamq[otel]'"
        ) from None
    return RequestSpans(endpoint, ratio, config.number("node.id"))


def server_limits(config: NodeConfig) -> ServerLimits:
    return ServerLimits(
        frame_bytes_max=config.number("kafka.frame.bytes.max"),
        other_frame_bytes_max=config.number("kafka.frame.other.bytes.max"),
        request_elements_max=config.number("kafka.request.elements.max"),
        requests_max=config.number("kafka.requests.per.connection.max"),
        request_bytes_max=config.number("kafka.request.bytes.max"),
        connections=connection_limits(config),
    )


def connection_limits(config: NodeConfig) -> ConnectionLimits:
    return ConnectionLimits(
        connections_max=config.number("kafka.connections.max"),
        connections_per_host_max=config.number("kafka.connections.per.host.max"),
        idle_ms_max=config.number("kafka.idle.ms.max"),
    )


def quota_windows(config: NodeConfig) -> QuotaWindows:
    length_ms = config.number("quota.window.size.seconds") * 1000
    return QuotaWindows(config.number("quota.window.num"), length_ms)


def tls_context(config: NodeConfig) -> TlsContext | None:
    certificate = config.text("kafka.tls.certificate")
    if not certificate:
        return None
    authorities = config.text("kafka.tls.client.authorities")
    return server_context(
        Path(certificate),
        Path(config.text("kafka.tls.key") or certificate),
        client_authorities=Path(authorities) if authorities else None,
        client_auth=ClientAuth(config.text("kafka.tls.client.auth")),
    )
