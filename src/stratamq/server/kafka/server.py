"""The Kafka front's listener: what all its connections share."""

from __future__ import annotations

import threading
from dataclasses import field
from typing import TYPE_CHECKING

from stratamq.broker.kafka.answer_budget import AnswerBudget
from stratamq.broker.kafka.broker import KafkaBroker
from stratamq.broker.kafka.security.logins import FailedLogins
from stratamq.model.counters import Durations
from stratamq.model.dataclass import dataclass
from stratamq.net.listener import ConnectionLimits, Listener
from stratamq.net.tls import TlsContext
from stratamq.server.kafka.auth import NoSasl, Security
from stratamq.server.kafka.refusals import Refusals
from stratamq.server.kafka.request_budget import RequestBudget
from stratamq.server.kafka.session import KafkaSession
from stratamq.server.kafka.throttle import NoQuotas, Quotas
from stratamq.server.kafka.watch import SERVING, RequestWatch
from stratamq.wire.kafka.protocol import APIS, FRAME_BYTES_MAX, ReceiveBuffers

if TYPE_CHECKING:
    from stratamq.server.kafka.audit_log import AuditLog


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """`requests_max` is per connection, `request_bytes_max` over all of them. Requests of all APIs
    but Produce have `other_frame_bytes_max`."""

    frame_bytes_max: int = FRAME_BYTES_MAX
    other_frame_bytes_max: int = 32 << 20
    request_elements_max: int = 1 << 17
    requests_max: int = 64
    request_bytes_max: int = 256 << 20
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)


class KafkaServer:
    """Connections to a broker. `start` returns when clients can connect."""

    def __init__(
        self,
        broker: KafkaBroker,
        answer_budget: AnswerBudget,
        limits: ServerLimits | None = None,
        *,
        security: Security | None = None,
        quotas: Quotas | None = None,
        tls: TlsContext | None = None,
        refusals: Refusals | None = None,
        watch: RequestWatch | None = None,
        logins: FailedLogins | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self.broker, self.answer_budget = broker, answer_budget
        self.limits = limits or ServerLimits()
        self.security: Security = security or NoSasl()
        self.quotas: Quotas = quotas or NoQuotas()
        self.refusals = refusals or Refusals()
        self.watch = watch or RequestWatch()
        self.logins = logins or FailedLogins()
        self.audit = audit
        self.served = {**broker.served, **self.security.served}
        self.request_budget = RequestBudget(self.limits.request_bytes_max)
        self.buffers = ReceiveBuffers()
        self.durations = {api.key: Durations() for api in APIS.values()}
        """From reading a request to its answer, by API."""
        self.listener = Listener(
            lambda connection: KafkaSession(connection, self), self.limits.connections, tls
        )

    def limit_connections(self, limits: ConnectionLimits) -> None:
        self.listener.limit(limits)

    def use_tls(self, tls: TlsContext) -> None:
        self.listener.use_tls(tls)

    @property
    def connection_count(self) -> int:
        return self.listener.connection_count

    async def start(self, host: str, port: int) -> tuple[str, int]:
        SERVING.thread = threading.get_ident()
        return await self.listener.start(host, port)

    async def stop_accepting(self) -> None:
        """From now on connections only finish what is under way."""
        await self.listener.stop_accepting()

    async def stop(self, grace_s: float) -> None:
        """What is under way has so long to end; then the rest is cut off."""
        await self.listener.stop(grace_s)
        self.watch.close()
        self.logins.close()
