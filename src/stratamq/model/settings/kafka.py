"""Settings of the Kafka front: connections, requests, authentication, access and quotas. Names that
Kafka has are Kafka's."""

from __future__ import annotations

from stratamq.model.settings.setting import Setting

MIB = 1 << 20
PORT_MAX = 65_535
LONG_MAX = (1 << 63) - 1

KAFKA_FRONT: tuple[Setting, ...] = (
    Setting(
        name="kafka.advertised.host",
        default="",
        doc="Host that clients are given to connect to. Empty: `host`, or this machine's name.",
    ),
    Setting(
        name="kafka.advertised.port",
        default=0,
        minimum=0,
        maximum=PORT_MAX,
        doc="Port that clients are given to connect to. 0: the one that is listened on.",
    ),
    Setting(
        name="auto.create.topics.enable",
        default=True,
        dynamic=True,
        doc="Whether a topic comes into being when a client first asks about it.",
    ),
    Setting(
        name="delete.topic.enable",
        default=True,
        dynamic=True,
        doc="Whether clients may delete topics.",
    ),
    Setting(
        name="num.partitions",
        default=1,
        minimum=1,
        dynamic=True,
        doc="Partitions of topics that are created without a number of their own.",
    ),
    Setting(
        name="default.replication.factor",
        default=1,
        minimum=1,
        maximum=(1 << 15) - 1,
        dynamic=True,
        doc="Replicas of topics that are created without a number of their own.",
    ),
    Setting(
        name="kafka.connections.max",
        default=2048,
        minimum=1,
        dynamic=True,
        doc="Connections there may be, if there are descriptors for them: see `files.reserved`. "
        "When it is reached, new connections are closed at once.",
    ),
    Setting(
        name="kafka.connections.per.host.max",
        default=2048,
        minimum=1,
        dynamic=True,
        doc="Connections from one address. At the limit, new connections are closed at once.",
    ),
    Setting(
        name="kafka.idle.ms.max",
        default=600_000,
        minimum=100,
        doc="A connection on which nothing moved for this long is closed.",
    ),
    Setting(
        name="kafka.frame.bytes.max",
        default=100 * MIB,
        minimum=1024,
        maximum=(1 << 31) - 1,
        doc="Largest request. Above: the connection is closed before any of it is stored.",
    ),
    Setting(
        name="kafka.frame.other.bytes.max",
        default=32 * MIB,
        minimum=1024,
        maximum=(1 << 31) - 1,
        doc="Largest request that is no Produce: all others are copied when they are read. Above: "
        "the connection is closed.",
    ),
    Setting(
        name="kafka.request.elements.max",
        default=1 << 17,
        minimum=1024,
        doc="Topics, partitions, names and the like that one request may list, repetitions "
        "included. Above: the connection is closed.",
    ),
    Setting(
        name="kafka.requests.per.connection.max",
        default=64,
        minimum=1,
        doc="Requests of one connection under way. At the limit, nothing more is read from it.",
    ),
    Setting(
        name="kafka.request.bytes.max",
        default=256 * MIB,
        minimum=MIB,
        doc="Bytes of all requests received and under way, and of what their lists take in memory. "
        "When it is reached, requests over 64 KiB wait, and so do connections that have more than "
        "that under way. Requests over 1 MiB have half of it together. While others wait, one that "
        "comes slower than 1 MiB/s is cut off.",
    ),
    Setting(
        name="kafka.response.bytes.max",
        default=256 * MIB,
        minimum=MIB,
        doc="Bytes of all answers on their way. When it is reached, fetches wait in line, for five "
        "seconds or as long as they ask for, and then get no records; when half of it is, other "
        "answers over 16 KiB wait too.",
    ),
    Setting(
        name="kafka.answer.bytes.max",
        default=32 * MIB,
        minimum=MIB,
        doc="About what one answer may take in memory, but for Fetch. Topics, resources, groups or "
        "partitions that come after those that fit are refused with POLICY_VIOLATION, each by "
        "itself.",
    ),
    Setting(
        name="kafka.fetch.bytes.max",
        default=55 * MIB,
        minimum=1024,
        dynamic=True,
        doc="Bytes of one Fetch answer; a client may ask for less. Above: it is cut there.",
    ),
    Setting(
        name="kafka.fetch.sessions.max",
        default=1000,
        minimum=0,
        doc="Incremental fetch sessions. At the limit, a session unused for two minutes is closed, "
        "else none is created.",
    ),
    Setting(
        name="kafka.fetch.session.partitions.max",
        default=100_000,
        minimum=0,
        doc="Partitions of all fetch sessions together; each takes about half a kilobyte. When it "
        "is reached, those unused for two minutes go, else clients fetch without a session.",
    ),
    Setting(
        name="kafka.tls.certificate",
        default="",
        doc="PEM file with the server's certificate chain. Empty: no TLS.",
    ),
    Setting(
        name="kafka.tls.key",
        default="",
        doc="PEM file with the private key. Empty: it is in `kafka.tls.certificate`.",
    ),
    Setting(
        name="kafka.tls.client.authorities",
        default="",
        doc="PEM file with the authorities that client certificates are checked with.",
    ),
    Setting(
        name="kafka.tls.client.auth",
        default="none",
        choices=("none", "requested", "required"),
        doc="Whether clients have to show a certificate; its name is then their principal.",
    ),
    *(
        Setting(
            name=name,
            default=LONG_MAX,
            minimum=0,
            maximum=LONG_MAX,
            dynamic=True,
            idle=True,
            doc="Accepted for Kafka's tools, without effect: replicas are not moved.",
        )
        for name in (
            "leader.replication.throttled.rate",
            "follower.replication.throttled.rate",
            "replica.alter.log.dirs.io.max.bytes.per.second",
        )
    ),
)

SECURITY: tuple[Setting, ...] = (
    Setting(
        name="sasl.enabled.mechanisms",
        default="",
        doc="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, with commas between. Empty: authentication is "
        "off.",
    ),
    Setting(
        name="connections.max.reauth.ms",
        default=0,
        minimum=0,
        doc="A client that does not authenticate again within this time is disconnected. 0: never.",
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
