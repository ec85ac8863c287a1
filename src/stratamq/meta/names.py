"""Which names we take. Topic names follow Kafka's rules, since the same topic is Kafka's too."""

from __future__ import annotations

import re

from stratamq.model.errors import InvalidName

TOPIC_NAME_MAX = 249
"""Kafka's limit: a name with a partition number behind it still has to fit a file name."""

GROUP_NAME_BYTES_MAX = 1024

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+\Z")


def check_topic_name(name: str) -> None:
    if not name:
        raise InvalidName("a topic needs a name")
    if name in (".", ".."):
        raise InvalidName(f"a topic cannot be called {name!r}")
    if len(name) > TOPIC_NAME_MAX:
        raise InvalidName(f"a topic name has at most {TOPIC_NAME_MAX} characters, not {len(name)}")
    if not _TOPIC_NAME.match(name):
        raise InvalidName(f"{name!r}: a topic name is made of letters, digits, '.', '_' and '-'")


def collision_key(name: str) -> str:
    """Names with the same key may not stand side by side: metric names turn `.` into `_`, as in
    Kafka."""
    return name.replace(".", "_")


def check_group_name(name: str) -> None:
    if not name:
        raise InvalidName("a group needs a name")
    if len(name.encode("utf-8", "surrogatepass")) > GROUP_NAME_BYTES_MAX:
        raise InvalidName(f"a group name has at most {GROUP_NAME_BYTES_MAX} bytes")
