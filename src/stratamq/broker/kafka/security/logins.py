"""Logins that failed, for the log and for metrics. Never a password, a proof or a token."""

from __future__ import annotations

import logging
from typing import Protocol

from stratamq.net.log_limit import LogLimit

logger = logging.getLogger(__name__)

CERTIFICATE = "certificate"
"""In the place of a SASL mechanism."""


class LoginAudit(Protocol):
    """The audit log, where there is one."""

    def login_failed(self, host: str, mechanism: str, reason: str, user: str) -> None: ...

    def left_out(self, whose: str, count: int) -> None: ...


class FailedLogins:
    """One for a front. `count` is since the start. The log, and the audit log, have ten lines of an
    address in a minute, and how many more there were."""

    def __init__(self) -> None:
        self.count = 0
        self.audit: LoginAudit | None = None
        self._lines = LogLimit(self._report)

    def failed(self, host: str, mechanism: str, reason: str, user: str | None = None) -> None:
        """`user` is the name that the client gave, where it came so far."""
        self.count += 1
        if self._lines.admits(host):
            fields = {"user": user or "", "mechanism": mechanism, "host": host, "reason": reason}
            logger.warning("login failed", extra={"fields": fields})
            if self.audit is not None:
                self.audit.login_failed(host, mechanism, reason, user or "")

    def close(self) -> None:
        self._lines.close()

    def _report(self, host: str, left_out: int) -> None:
        fields = {"host": host, "left_out": left_out}
        logger.warning("more failed logins were not logged", extra={"fields": fields})
        if self.audit is not None:
            self.audit.left_out(f"failed logins of {host}", left_out)
