"""Brokers' configs: altered while the node runs, in effect at once, and after a restart."""

from __future__ import annotations

from typing import Any

import pytest

from stratamq.broker.kafka.admin.configs.alter import BROKER_SETTINGS
from stratamq.model.config import ALL_SETTINGS
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from stratamq.wire.kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.admin.conftest import Rig, Starter

BROKER, LOGGER = 4, 8
OWN_TOPIC, THIS_BROKER, EVERY_BROKER, NODE, DEFAULT = 1, 2, 3, 4, 5
SET, DELETE, APPEND, SUBTRACT = range(4)
THIS, EVERY = "1", ""


async def described(rig: Rig, name: str) -> dict[str, Any]:
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = (await rig.ask(request)).results
    assert not result.error_code, result.error_message
    return {one.name: one for one in result.configs}


async def origins(rig: Rig, config: str) -> list[tuple[str | None, int]]:
    """The values that this broker could have, the one that holds first."""
    entry = (await described(rig, THIS))[config]
    assert (entry.value, entry.config_source) == (entry.synonyms[0].value, entry.synonyms[0].source)
    return [(one.value, one.source) for one in entry.synonyms]


async def alter(
    rig: Rig,
    name: str,
    *changes: tuple[str, int, str | None],
    kind: int = BROKER,
    validate_only: bool = False,
) -> tuple[ErrorCode, str]:
    resource = IncrementalAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = (await rig.ask(request)).responses
    return ErrorCode(result.error_code), result.error_message or ""


async def replace(rig: Rig, name: str, given: dict[str, str]) -> ErrorCode:
    resource = AlterConfigsResource(
        resource_type=BROKER,
        resource_name=name,
        configs=[AlterableConfig(name=key, value=value) for key, value in given.items()],
    )
    request = AlterConfigsRequest(resources=[resource], validate_only=False)
    return ErrorCode((await rig.ask(request)).responses[0].error_code)


OK = (ErrorCode.NONE, "")


async def test_a_brokers_own_wins_over_all_brokers_and_that_over_how_it_was_started(
    rig: Rig,
) -> None:
    assert await origins(rig, "num.partitions") == [("2", NODE), ("1", DEFAULT)]
    assert await alter(rig, EVERY, ("num.partitions", SET, "3")) == OK
    assert await alter(rig, THIS, ("num.partitions", SET, "4")) == OK
    assert await origins(rig, "num.partitions") == [
        ("4", THIS_BROKER),
        ("3", EVERY_BROKER),
        ("2", NODE),
        ("1", DEFAULT),
    ]
    every = await described(rig, EVERY)
    assert [(one.name, one.value, one.config_source) for one in every.values()] == [
        ("num.partitions", "3", EVERY_BROKER)
    ]
    assert await alter(rig, THIS, ("num.partitions", DELETE, None)) == OK
    assert (await origins(rig, "num.partitions"))[0] == ("3", EVERY_BROKER)
    assert await alter(rig, EVERY, ("num.partitions", DELETE, None)) == OK
    assert await origins(rig, "num.partitions") == [("2", NODE), ("1", DEFAULT)]
    assert await described(rig, EVERY) == {}


async def test_they_hold_after_a_restart(started: Starter) -> None:
    async with started() as rig:
        await alter(rig, EVERY, ("transaction.max.timeout.ms", SET, "70000"))
        await alter(rig, THIS, ("log.retention.ms", SET, "9"))
    async with started() as rig:
        assert (await origins(rig, "transaction.max.timeout.ms"))[0] == ("70000", EVERY_BROKER)
        assert rig.services.config.number("transaction.max.timeout.ms") == 70_000
        made = await rig.core.topics.create("t")
        assert made.config["retention.ms"] == 9


async def test_topics_get_the_new_defaults(rig: Rig) -> None:
    before = await rig.core.topics.create("before")
    await alter(
        rig, EVERY, ("log.retention.ms", SET, "7"), ("log.cleanup.policy", APPEND, "compact")
    )
    after = await rig.core.topics.create("after")
    assert (after.config["retention.ms"], after.config["cleanup.policy"]) == (7, "compact,delete")
    assert rig.services.broker_cache.topic("before").config == before.config
    resource = DescribeConfigsResource(
        resource_type=2, resource_name="after", configuration_keys=["retention.ms"]
    )
    (result,) = (await rig.ask(DescribeConfigsRequest(resources=[resource]))).results
    sources = {one.name: one.config_source for one in result.configs}
    assert sources["retention.ms"] == EVERY_BROKER


async def test_topics_come_into_being_by_themselves_only_while_that_is_on(rig: Rig) -> None:
    async def asked_for(name: str) -> ErrorCode:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        return ErrorCode((await rig.ask(request)).topics[0].error_code)

    await alter(rig, THIS, ("auto.create.topics.enable", SET, "false"))
    assert await asked_for("t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await alter(rig, THIS, ("auto.create.topics.enable", SET, "true"))
    assert await asked_for("t") is ErrorCode.NONE


async def test_alter_configs_takes_back_what_it_does_not_name(rig: Rig) -> None:
    await alter(rig, THIS, ("num.partitions", SET, "5"), ("delete.topic.enable", SET, "false"))
    assert await replace(rig, THIS, {"delete.topic.enable": "false"}) is ErrorCode.NONE
    assert (await origins(rig, "num.partitions"))[0] == ("2", NODE)
    assert (await origins(rig, "delete.topic.enable"))[0] == ("false", THIS_BROKER)
    assert await replace(rig, THIS, {}) is ErrorCode.NONE
    assert (await origins(rig, "delete.topic.enable"))[0] == ("true", DEFAULT)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (("log.dirs", SET, "/x"), ErrorCode.INVALID_REQUEST, "set data.dir where the node"),
        (("log.dirs", DELETE, None), ErrorCode.INVALID_REQUEST, "log.dirs cannot be altered"),
        (("num.partitons", SET, "1"), ErrorCode.INVALID_CONFIG, "did you mean 'num.partitions'"),
        (("num.partitions", SET, "0"), ErrorCode.INVALID_CONFIG, "0 is below 1"),
        (
            ("log.retention.ms", SET, "x"),
            ErrorCode.INVALID_CONFIG,
            "log.retention.ms: 'x' is",
        ),
        (("num.partitions", SET, None), ErrorCode.INVALID_CONFIG, "a value is missing"),
        (("num.partitions", APPEND, "1"), ErrorCode.INVALID_CONFIG, "is no list"),
    ],
)
@pytest.mark.parametrize("name", [THIS, EVERY])
async def test_refused_by_name_and_nothing_is_changed(
    rig: Rig, name: str, change: tuple[str, int, str | None], code: ErrorCode, words: str
) -> None:
    answer = await alter(rig, name, ("delete.topic.enable", SET, "false"), change)
    assert answer[0] is code
    assert words in answer[1]
    assert await origins(rig, "delete.topic.enable") == [("true", DEFAULT)]


async def test_other_brokers_and_other_kinds_are_refused(rig: Rig) -> None:
    change = ("num.partitions", SET, "3")
    assert (await alter(rig, "7", change))[0] is ErrorCode.INVALID_REQUEST
    assert (await alter(rig, THIS, change, kind=LOGGER))[0] is ErrorCode.INVALID_REQUEST
    assert (await alter(rig, THIS, change, kind=99))[0] is ErrorCode.INVALID_REQUEST


async def test_validate_only_changes_nothing(rig: Rig) -> None:
    assert await alter(rig, THIS, ("num.partitions", SET, "3"), validate_only=True) == OK
    bad = await alter(rig, THIS, ("num.partitions", SET, "x"), validate_only=True)
    assert bad[0] is ErrorCode.INVALID_CONFIG
    assert (await origins(rig, "num.partitions"))[0] == ("2", NODE)


async def test_what_is_read_only_is_what_cannot_be_altered(rig: Rig) -> None:
    found = await described(rig, THIS)
    for name, setting in BROKER_SETTINGS.items():
        change = (name, SET, found[name].value)
        code, _ = await alter(rig, THIS, change, validate_only=True)
        refused = code is ErrorCode.INVALID_REQUEST
        assert refused == found[name].read_only == (not setting.dynamic), name


async def test_what_a_later_version_does_not_know_is_left_out(rig: Rig) -> None:
    config = rig.services.config
    config.override(every_broker={"gone": 1, "data.dir": "/x"}, this_broker={"num.partitions": 9})
    assert config.number("num.partitions") == 9
    assert set(config.values) == set(ALL_SETTINGS)
    assert config.data_dir != "/x"
