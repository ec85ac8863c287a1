"""TLS: certificates of servers and clients, and who a client says it is."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from stratamq.model.errors import InvalidConfig

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
_ESCAPED = ',+"\\<>;'


class ClientAuth(StrEnum):
    """Whether clients are asked for a certificate of their own."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


TlsContext = ssl.SSLContext

_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(
    certificate: Path,
    key: Path,
    *,
    client_authorities: Path | None = None,
    client_auth: ClientAuth = ClientAuth.NONE,
) -> ssl.SSLContext:
    """Files are PEM; `certificate` holds the whole chain. InvalidConfig names what is wrong."""
    if client_auth is not ClientAuth.NONE and client_authorities is None:
        raise InvalidConfig("client certificates need a file of authorities to check them with")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
        if client_authorities is not None:
            context.load_verify_locations(client_authorities)
    except (OSError, ssl.SSLError) as error:
        raise InvalidConfig(f"TLS: {certificate} and {key} cannot be used ({error})") from None
    context.verify_mode = _VERIFY[client_auth]
    return context


def client_context(
    *, authorities: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """For connections that we make. Without `authorities`, those that the system trusts."""
    try:
        context = ssl.create_default_context(cafile=authorities)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        named = ", ".join(str(file) for file in (authorities, certificate, key) if file)
        raise InvalidConfig(f"TLS: {named} cannot be used ({error})") from None
    return context


def principal_of(certificate: Mapping[str, object] | None) -> str | None:
    """`User:CN=reports,O=Example`, as Kafka writes it: the most specific name first."""
    subject = (certificate or {}).get("subject")
    if not subject:
        return None
    assert isinstance(subject, tuple), "as the ssl module gives it"
    names = [
        "+".join(f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in part)
        for part in reversed(subject)
    ]
    return "User:" + ",".join(names)


def _escaped(value: str) -> str:
    return "".join(f"\\{char}" if char in _ESCAPED else char for char in value)
