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
    _load_own(context, certificate, key)
    if client_authorities is not None:
        _load_authorities(context, client_authorities)
    context.verify_mode = _VERIFY[client_auth]
    return context


def client_context(
    *, authorities: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """For connections that we make. Without `authorities`, those that the system trusts."""
    if authorities is not None:
        _load_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), authorities)
    context = ssl.create_default_context(cafile=authorities)  # it takes those alone, if there are
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        _load_own(context, certificate, key or certificate)
    return context


def _load_own(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """OpenSSL says neither which file is wrong nor how, so they are looked at one by one."""
    _check_pem(certificate, "CERTIFICATE", "certificate")
    _check_pem(key, "PRIVATE KEY", "private key")
    try:
        context.load_cert_chain(certificate, key, password="")  # without one, OpenSSL would ask
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise InvalidConfig(f"TLS: {key} is not the key of {certificate}") from None
        raise InvalidConfig(
            f"TLS: {certificate} and {key} cannot be used: a part is damaged, or the key has a "
            "password"
        ) from None


def _load_authorities(context: ssl.SSLContext, authorities: Path) -> None:
    _check_pem(authorities, "CERTIFICATE", "certificate")
    try:
        context.load_verify_locations(authorities)
    except ssl.SSLError:
        raise InvalidConfig(f"TLS: {authorities} cannot be used: a part is damaged") from None


def _check_pem(file: Path, mark: str, what: str) -> None:
    try:
        text = file.read_bytes()
    except OSError as error:
        raise InvalidConfig(f"TLS: {file} cannot be read: {error.strerror}") from None
    if f"{mark}-----".encode() not in text:
        raise InvalidConfig(f"TLS: {file} holds no {what} in PEM form")


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


# -- handshakes that fail --------------------------------------------------------------------------

_OLD = "the client offers no version of TLS from 1.2 on"
_DISTRUST = "the client does not accept the node's certificate"
_WORDS = {
    "HTTP_REQUEST": "HTTP on a port for TLS",
    "WRONG_VERSION_NUMBER": "a client without TLS, or of another protocol, on a port for TLS",
    "UNSUPPORTED_PROTOCOL": _OLD,
    "VERSION_TOO_LOW": _OLD,
    "NO_SHARED_CIPHER": "client and node have no cipher in common",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate, which is required",
    "PROTOCOL_VERSION": "the client accepts no version of TLS that the node has",
    "HANDSHAKE_FAILURE": "the client has no cipher or version in common with the node",
    "UNKNOWN_CA": f"{_DISTRUST}: it does not know the authority that signed it",
    "CERTIFICATE_EXPIRED": f"{_DISTRUST}: it has expired",
    "BAD_CERTIFICATE": _DISTRUST,
    "CERTIFICATE_UNKNOWN": _DISTRUST,
}
"""By OpenSSL's name of the failure; of an alert that the client sent, by what follows `ALERT_`."""


def why_no_handshake(error: BaseException) -> str | None:
    """In plain words. None: the connection was closed, as by a probe of the port."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return _WORDS.get(reason.rpartition("ALERT_")[2], reason.lower().replace("_", " "))
    if isinstance(error, ConnectionAbortedError):  # by asyncio and uvloop alike
        return "the client did not end the handshake in time"
    return None
