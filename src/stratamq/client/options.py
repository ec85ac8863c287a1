"""How a client reaches its cluster, and how long it tries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from stratamq.model.errors import InvalidConfig

PORT = 9092
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Server(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files; without `authorities`, those that the system trusts."""

    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What failed for a reason that may pass is tried again until `retry_ms_max` is over."""

    servers: tuple[Server, ...]
    client_id: str = "stratamq"
    tls: TlsFiles | None = None
    login: Login | None = None
    connect_ms_max: int = 5_000
    request_ms_max: int = 30_000
    retry_ms_max: int = 30_000
    backoff_ms: int = 20
    backoff_ms_max: int = 1_000


SETTINGS = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "client.id",
    "retry.ms",
)
"""Names of what `options_of` reads in addition to the servers: those that librdkafka has for the
same."""


def servers_of(text: str) -> tuple[Server, ...]:
    """`host:port,host:port`; a port that is not said is 9092."""
    servers = tuple(_server(part.strip()) for part in text.split(",") if part.strip())
    if not servers:
        raise InvalidConfig("servers: at least one host:port is needed")
    return servers


def options_of(servers: str, settings: Mapping[str, str]) -> ClientOptions:
    """Parse options from text, as options of a Spark job or flags of a command have it."""
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise InvalidConfig(f"security.protocol: {protocol!r} is not one of {', '.join(PROTOCOLS)}")
    return ClientOptions(
        servers=servers_of(servers),
        client_id=settings.get("client.id", "stratamq"),
        tls=_tls(settings) if protocol.endswith("SSL") else None,
        login=_login(settings) if protocol.startswith("SASL") else None,
        retry_ms_max=_number(settings.get("retry.ms", "30000"), "retry.ms"),
    )


def _server(text: str) -> Server:
    host, colon, port = text.rpartition(":")
    if not colon:
        return Server(text, PORT)
    number = _number(port, f"servers: {text!r}: the port")
    return Server(host.strip("[]"), number)


def _number(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidConfig(f"{name} must be a number, not {text!r}")
    return int(text)


def _tls(settings: Mapping[str, str]) -> TlsFiles:
    def file(name: str) -> Path | None:
        return Path(settings[name]) if name in settings else None

    return TlsFiles(
        authorities=file("ssl.ca.location"),
        certificate=file("ssl.certificate.location"),
        key=file("ssl.key.location"),
    )


def _login(settings: Mapping[str, str]) -> Login:
    mechanism = settings.get("sasl.mechanism", "SCRAM-SHA-256").upper()
    if mechanism not in MECHANISMS:
        raise InvalidConfig(f"sasl.mechanism: {mechanism!r} is not one of {', '.join(MECHANISMS)}")
    for name in ("sasl.username", "sasl.password"):
        if not settings.get(name):
            raise InvalidConfig(f"{name} is needed to log in by {mechanism}")
    return Login(
        mechanism=mechanism, user=settings["sasl.username"], password=settings["sasl.password"]
    )
