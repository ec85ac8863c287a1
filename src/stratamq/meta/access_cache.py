"""A node's copy of access rules, users and quotas."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from stratamq.meta.access import Credential, CredentialKey, Mechanism, Quota, QuotaScope
from stratamq.meta.caches import WatchedCache
from stratamq.meta.events import Event, Put
from stratamq.meta.state import MetaState
from stratamq.model.access import AclRule


class AccessCacheManager(WatchedCache):
    """`rules_version` and `quotas_version` change whenever theirs do: what was worked out from
    them before is then out of date."""

    rules_version = 0
    quotas_version = 0
    _rules: set[AclRule]
    _credentials: dict[CredentialKey, Credential]
    _quotas: dict[QuotaScope, Quota]

    def rules(self) -> frozenset[AclRule]:
        return frozenset(self._rules)

    def credential(self, user: str, mechanism: Mechanism) -> Credential | None:
        return self._credentials.get(CredentialKey(user, mechanism))

    def credentials(self) -> Mapping[CredentialKey, Credential]:
        return self._credentials

    def quotas(self) -> Mapping[QuotaScope, Quota]:
        return self._quotas

    def _replace(self, state: MetaState) -> None:
        self._rules = set(state.acls)
        self._credentials = dict(state.credentials)
        self._quotas = dict(state.quotas)
        self.rules_version += 1
        self.quotas_version += 1

    def _change(self, event: Event) -> Hashable | None:
        present = isinstance(event, Put)
        match event.entity:
            case AclRule() as rule:
                self.rules_version += 1
                (self._rules.add if present else self._rules.discard)(rule)
            case Credential() as credential:
                self._credentials.pop(credential.key, None)
                if present:
                    self._credentials[credential.key] = credential
            case Quota() as quota:
                self.quotas_version += 1
                self._quotas.pop(quota.scope, None)
                if present:
                    self._quotas[quota.scope] = quota
            case _:
                pass
        return None
