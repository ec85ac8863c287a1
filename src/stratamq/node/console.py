"""The console of a node: its port, and what its pages are made from."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from stratamq.console.health import Health
from stratamq.console.http import HttpServer
from stratamq.console.pauses import Pauses
from stratamq.model.config import ConfigSource, NodeConfig
from stratamq.model.errors import CannotListen
from stratamq.net.listener import is_loopback, reachable_name
from stratamq.node.core import NodeCore
from stratamq.node.kafka import Address, KafkaFront

if TYPE_CHECKING:
    from stratamq.console.http_protocol import App

log = logging.getLogger("stratamq.node")

OFF = -1
ANY_PORT = 0


class ConsoleFront:
    """A Front that runs for longer than the others: a node that starts slowly, or stops, says so.

    A console that the user did not ask for must not keep a node from starting: where its default
    port is in use, it takes another one, which the ready line names.
    """

    def __init__(
        self, config: NodeConfig, health: Health, core: NodeCore, kafka: KafkaFront
    ) -> None:
        self._config, self._health, self._core, self._kafka = config, health, core, kafka
        self._pauses = Pauses()
        self._server = HttpServer(self._make_app, config.number("console.connections.max"))

    def _make_app(self) -> App:
        from importlib.metadata import version  # a start without it is quicker

        from stratamq.console.app import make_app
        from stratamq.console.collector import MetricsCollector, Sources

        core, kafka = self._core, self._kafka
        sources = Sources(
            config=self._config,
            version=version("stratamq"),
            health=self._health,
            pauses=self._pauses,
            disk_usage=core.doors.disk_usage,
            engines=core.engines,
            topics=core.broker_cache,
            offsets=core.groups,
            server=lambda: kafka.server,
            groups=lambda: kafka.groups,
            history=core.tiering.status,
        )
        return make_app(self._health, MetricsCollector(sources).text)

    async def start(self) -> Address:
        host, port = self._config.text("console.host"), self._config.number("console.port")
        try:
            host, port = await self._server.start(host, port)
        except CannotListen as error:
            if self._config.sources["console.port"] is not ConfigSource.DEFAULT:
                raise
            host, port = await self._server.start(host, ANY_PORT)
            log.info("%s; the console has port %d", error, port)
        if not is_loopback(host):
            log.warning("every machine that reaches %s may read the console's metrics", host)
        self._pauses.start()
        return Address("console", reachable_name(host), port)

    async def stop(self) -> None:
        self._pauses.stop()
        await self._server.stop()
