"""Access control, put together: a family of APIs, and the guard before all families."""

from __future__ import annotations

from collections.abc import Mapping

from stratamq.broker.kafka.contract import Family, Handled, Services
from stratamq.broker.kafka.groups.consumer.members import Reader
from stratamq.broker.kafka.security.acl_api import AclApi
from stratamq.broker.kafka.security.authorizer import Authorizer, Decider, EverybodyMay
from stratamq.broker.kafka.security.guard import Guard
from stratamq.broker.kafka.security.principals import PrincipalRules
from stratamq.broker.kafka.security.sasl import Sasl, SaslOptions, mechanisms_of
from stratamq.broker.kafka.security.users_api import UsersApi
from stratamq.meta.access import AccessCacheManager
from stratamq.model.access import Operation, ResourceKind
from stratamq.model.config import NodeConfig


class Access(Family):
    """A `Family`. It must start before the others, since they are asked by its `guard`.

    `sasl` is None where nobody is asked for a password; `secret` makes up salts for users who do
    not exist, and must stay the same.
    """

    def __init__(self, services: Services, secret: bytes) -> None:
        config = services.config
        reconcile_s = config.number("meta.reconcile.interval.ms") / 1000
        self.cache = AccessCacheManager(services.meta, reconcile_s=reconcile_s)
        self._config = config
        self._enforces = enforces = config.text("authorizer") != "none"
        self._decider: Decider = EverybodyMay()
        self._version = -1
        self._acls = AclApi(services.meta, self.cache, enabled=enforces)
        self._users = UsersApi(services.meta, self.cache)
        self.principals = PrincipalRules(config.text("ssl.principal.mapping.rules"))
        options = sasl_options(config)
        self.sasl = (
            Sasl(options, self.cache.credential, secret, services.entropy)
            if options.mechanisms
            else None
        )
        self.guard = Guard(
            self._current if enforces else EverybodyMay,
            services.broker_cache,
            enforces=enforces,
            creates_topics=lambda: config.flag("auto.create.topics.enable"),
        )

    def handlers(self) -> Mapping[type, Handled]:
        return {**self._acls.handlers(), **self._users.handlers()}

    async def start(self) -> None:
        await self.cache.start()

    async def stop(self) -> None:
        await self.cache.stop()

    # -- for groups ----------------------------------------------------------------------------

    @property
    def rules_version(self) -> int:
        return self.cache.rules_version if self._enforces else 0

    def shows(self, reader: Reader, topic: str) -> bool:
        """Whether the reader may know of the topic."""
        decider = self._current() if self._enforces else EverybodyMay()
        return decider.allows(*reader, Operation.DESCRIBE, ResourceKind.TOPIC, topic)

    def _current(self) -> Decider:
        """Made anew when the rules have changed; what the old one remembers goes with it."""
        if self._version != self.cache.rules_version:
            self._version = self.cache.rules_version
            self._decider = Authorizer(
                self.cache.rules(),
                super_users=super_users(self._config),
                everyone_if_none=self._config.flag("allow.everyone.if.no.acl.found"),
            )
        return self._decider


def sasl_options(config: NodeConfig) -> SaslOptions:
    return SaslOptions(
        mechanisms=mechanisms_of(config.text("sasl.enabled.mechanisms")),
        iterations=config.number("scram.iterations"),
        session_ms=config.number("connections.max.reauth.ms"),
        failure_delay_s=config.number("connection.failed.authentication.delay.ms") / 1000,
    )


def super_users(config: NodeConfig) -> frozenset[str]:
    named = (one.strip() for one in config.text("super.users").split(";"))
    return frozenset(one for one in named if one)
