"""Commands come out of bytes as they went in, all of them."""

from __future__ import annotations

import json
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.meta.apply import Command
from stratamq.meta.commands import EncodedCommand, decode_command, encode_command
from stratamq.meta.topics import AlterTopicConfig, CreateTopic
from stratamq.model.errors import InvalidInput, UnsupportedFormat
from stratamq.model.topic import TopicConfig
from tests.meta.support import ME, T1, topic

CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "retention.ms": st.integers(-1, 1 << 40),
        "flush": st.sampled_from(["sync", "os"]),
        "storage.type": st.sampled_from(["EngineMemory", "one of the user's"]),
    },
).map(lambda given: TopicConfig.of(given, {"one of the user's"}))

VALUES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(),
    str: st.text(),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    object: st.text() | st.integers() | st.booleans(),
    TopicConfig: CONFIGS,
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Every field of any value: defaults are not left as they are."""
    args = get_args(kind)
    match get_origin(kind):
        case None if hasattr(kind, "__supertype__"):
            return values_of(kind.__supertype__)
        case None if kind in VALUES:
            return VALUES[kind]
        case None if isinstance(kind, type) and issubclass(kind, Enum):
            return st.sampled_from(kind)
        case None:
            hints = get_type_hints(kind)
            return st.builds(kind, **{name: values_of(one) for name, one in hints.items()})
        case origin if origin is tuple:
            return st.lists(values_of(args[0]), max_size=3).map(tuple)
        case origin if origin is frozenset:
            return st.frozensets(values_of(args[0]), max_size=3)
        case origin if origin in (Union, UnionType):
            kinds = [values_of(one) for one in args if one is not type(None)]
            return st.one_of(*kinds, *([st.none()] if type(None) in args else []))
        case _:
            return st.dictionaries(st.text(), values_of(args[1]), max_size=3)


@pytest.mark.parametrize("kind", get_args(Command), ids=lambda kind: kind.__name__)
def test_every_command_comes_back(kind: type) -> None:
    @given(values_of(kind))
    def check(command: Command) -> None:
        encoded = encode_command(command)
        assert encoded.name == kind.__name__
        assert decode_command(encoded) == command

    check()


def test_a_topics_config_comes_back_whole() -> None:
    command = CreateTopic(topic=topic(retention_ms=5), creator=ME)
    found = decode_command(encode_command(command))
    assert isinstance(found, CreateTopic)
    assert found.topic.config.values == command.topic.config.values


def test_a_field_that_an_older_node_does_not_send_has_its_default() -> None:
    name, version, fields = encode_command(AlterTopicConfig(topic_id=T1, put={"flush": "os"}))
    known = json.loads(fields)
    del known["reset"]
    older = EncodedCommand(name, version, json.dumps(known).encode())
    assert decode_command(older) == AlterTopicConfig(topic_id=T1, put={"flush": "os"})


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (EncodedCommand("FlyToTheMoon", 1, b"{}"), UnsupportedFormat),
        (EncodedCommand("DeleteTopic", 2, b"{}"), UnsupportedFormat),
        (EncodedCommand("DeleteTopic", 1, b"{"), InvalidInput),
        (EncodedCommand("DeleteTopic", 1, b"[]"), InvalidInput),
        (EncodedCommand("DeleteTopic", 1, b"{}"), InvalidInput),
        (EncodedCommand("DeleteTopic", 1, b'{"topic_id":"1","more":2}'), InvalidInput),
        (EncodedCommand("UpdateIsr", 1, b'{"isr":5}'), InvalidInput),
    ],
)
def test_what_is_no_command_is_refused(wrong: EncodedCommand, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode_command(wrong)
