"""What may go wrong between bytes and messages.

ProtocolError                a peer's bytes, or what we would answer, do not fit the protocol
├── MalformedFrame           the size before a frame is negative or too short for a header
├── FrameTooLarge            the size is over the limit; nothing of it was buffered
├── MalformedMessage         a header or body that does not follow its schema
├── UnknownApi               an API key that no table of ours has
├── UnsupportedVersion       a known API in a version that is not served
└── UnsendableValue          our own message holds a value that this version cannot carry

All but the last are the peer's doing: close its connection, or, for ApiVersions in a version too
new, answer in version 0. The last one is our bug, found before a byte of it is sent.
"""

from __future__ import annotations

from stratamq.model.errors import InvalidInput


class ProtocolError(InvalidInput):
    pass


class MalformedFrame(ProtocolError):
    pass


class FrameTooLarge(ProtocolError):
    pass


class MalformedMessage(ProtocolError):
    pass


class UnknownApi(ProtocolError):
    """Carries what every request header begins with, in whatever version it is."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        super().__init__(f"API key {api_key} (version {api_version}) is not known")
        self.api_key, self.api_version = api_key, api_version
        self.correlation_id = correlation_id


class UnsupportedVersion(ProtocolError):
    """As UnknownApi; for ApiVersions the correlation id is needed for the answer."""

    def __init__(self, name: str, api_key: int, api_version: int, correlation_id: int) -> None:
        super().__init__(f"{name} (API key {api_key}) is not served in version {api_version}")
        self.api_key, self.api_version = api_key, api_version
        self.correlation_id = correlation_id


class UnsendableValue(ProtocolError):
    pass
