"""Who may connect, who may do what, and how much; names that Kafka has are Kafka's."""

from __future__ import annotations

from stratamq.model.settings import Setting

SECURITY: tuple[Setting, ...] = (
    Setting(
        name="sasl.enabled.mechanisms",
        default="",
        doc="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, with commas between. Empty: nobody is asked.",
    ),
    Setting(
        name="connections.max.reauth.ms",
        default=0,
        minimum=0,
        doc="A client that does not prove anew who it is in this time is closed. 0: never asked.",
    ),
    Setting(
        name="connection.failed.authentication.delay.ms",
        default=100,
        minimum=0,
        doc="How long the answer to a wrong password is held back.",
    ),
    Setting(
        name="scram.iterations",
        default=4096,
        minimum=4096,
        maximum=16_384,
        doc="Rounds of hashing for passwords that are set by `stratamq user`.",
    ),
    Setting(
        name="ssl.principal.mapping.rules",
        default="DEFAULT",
        doc="How the name in a client's certificate becomes a principal, in Kafka's words.",
    ),
    Setting(
        name="authorizer",
        default="none",
        choices=("none", "acl"),
        doc="none: everybody may do everything. acl: access rules decide.",
    ),
    Setting(
        name="super.users",
        default="",
        doc="Principals that no rule binds: User:alice;User:bob.",
    ),
    Setting(
        name="allow.everyone.if.no.acl.found",
        default=False,
        doc="Whether a resource that no rule speaks of is open to everybody.",
    ),
    Setting(
        name="quota.window.num",
        default=11,
        minimum=2,
        maximum=1000,
        doc="Windows over which quotas take a rate, the current one included.",
    ),
    Setting(
        name="quota.window.size.seconds",
        default=1,
        minimum=1,
        maximum=3600,
        doc="Length of each window. A longer one lets longer bursts pass.",
    ),
)
