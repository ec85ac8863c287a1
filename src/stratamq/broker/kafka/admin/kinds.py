"""The numbers that stand for kinds of configs on the wire. They are Kafka's."""

from __future__ import annotations

from enum import IntEnum


class Resource(IntEnum):
    """What has configs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Origin(IntEnum):
    """Where a value comes from."""

    TOPIC = 1
    THIS_BROKER = 2
    EVERY_BROKER = 3
    NODE = 4
    DEFAULT = 5
    GROUP = 8


class Type(IntEnum):
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    LIST = 7
    PASSWORD = 9


class Operation(IntEnum):
    """What an incremental change does."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
