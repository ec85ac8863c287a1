from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Command(_message.Message):
    __slots__ = ("name", "version", "fields")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    fields: bytes
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., fields: _Optional[bytes] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("kind", "text")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    text: str
    def __init__(self, kind: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("commands",)
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedCompositeFieldContainer[Command]
    def __init__(self, commands: _Optional[_Iterable[_Union[Command, _Mapping]]] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("revision", "refusal")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    revision: int
    refusal: Refusal
    def __init__(self, revision: _Optional[int] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...

class Row(_message.Message):
    __slots__ = ("key", "value", "removed")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    removed: bool
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., removed: _Optional[bool] = ...) -> None: ...

class SnapshotRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SnapshotPart(_message.Message):
    __slots__ = ("revision", "rows")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    rows: _containers.RepeatedCompositeFieldContainer[Row]
    def __init__(self, revision: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[Row, _Mapping]]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchUpdate(_message.Message):
    __slots__ = ("previous", "revision", "events")
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    previous: int
    revision: int
    events: _containers.RepeatedCompositeFieldContainer[Row]
    def __init__(self, previous: _Optional[int] = ..., revision: _Optional[int] = ..., events: _Optional[_Iterable[_Union[Row, _Mapping]]] = ...) -> None: ...

class RevisionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RevisionReply(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...
