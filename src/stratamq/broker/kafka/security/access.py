"""Access control, put together: a family of APIs, and the guard before all families."""

from __future__ import annotations

from collections.abc import Mapping

from stratamq.broker.kafka.contract import Family, Handled, Services
from stratamq.broker.kafka.groups.consumer.members import Subscriber
from stratamq.broker.kafka.security.acls import AclApi
from stratamq.broker.kafka.security.authorizer import AclAuthorizer, AllowEverything, Authorizer
from stratamq.broker.kafka.security.guard import Guard
from stratamq.broker.kafka.security.logins import FailedLogins
from stratamq.broker.kafka.security.principals import PrincipalRules
from stratamq.broker.kafka.security.sasl import Sasl, SaslOptions, mechanisms_of
from stratamq.broker.kafka.security.users_api import UsersApi
from stratamq.meta.access import AccessCacheManager
from stratamq.model.access import Operation, ResourceKind
from stratamq.model.config import NodeConfig


class Access(Family):
    """Starts before the other families, since its `guard` stands before their handlers.

    `sasl` is None where authentication is off; `secret` makes up salts for users who do not exist,
    and must stay the same.
    """

    def __init__(self, services: Services, secret: bytes) -> None:
        config = services.config
        reconcile_s = config.number("meta.reconcile.interval.ms") / 1000
        self.cache = AccessCacheManager(services.meta, reconcile_s=reconcile_s)
        self._config = config
        self._enforces = enforces = config.text("authorizer") != "none"
        self._authorizer: Authorizer = AllowEverything()
        self._version = -1
        self._acls = AclApi(services.meta, self.cache, enabled=enforces)
        self._users = UsersApi(services.meta, self.cache)
        self.principals = PrincipalRules(config.text("ssl.principal.mapping.rules"))
        self.logins = FailedLogins()
        options = sasl_options(config)
        self.sasl = (
            Sasl(options, self.cache.credential, secret, self.logins, services.entropy)
            if options.mechanisms
            else None
        )
        self.guard = Guard(
            self._current if enforces else AllowEverything,
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

    def shows(self, reader: Subscriber, topic: str) -> bool:
        """Whether the reader may know of the topic."""
        authorizer = self._current() if self._enforces else AllowEverything()
        return authorizer.allows(*reader, Operation.DESCRIBE, ResourceKind.TOPIC, topic)

    def _current(self) -> Authorizer:
        """A new one when the rules have changed: what the old one remembers goes with it."""
        if self._version != self.cache.rules_version:
            self._version = self.cache.rules_version
            self._authorizer = AclAuthorizer(
                self.cache.rules(),
                super_users=super_users(self._config),
                everyone_if_none=self._config.flag("allow.everyone.if.no.acl.found"),
            )
        return self._authorizer


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
