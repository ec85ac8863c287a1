"""Configs: described, changed, kept, and heeded by shards that are running."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stratamq.model.config import ALL_SETTINGS
from stratamq.model.record import Record
from stratamq.model.settings.topic import TOPIC_SETTINGS, StorageType
from stratamq.model.types import Offset
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
    ListConfigResourcesRequest,
)
from tests.broker.admin.conftest import Rig, Starter

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
OWN, NODE, DEFAULT = 1, 4, 5
SET, DELETE, APPEND, SUBTRACT = range(4)
BOOLEAN, STRING, INT, LONG, LIST = 1, 2, 3, 5, 7


async def describe(
    rig: Rig, kind: int = TOPIC, name: str = "t", keys: list[str] | None = None, version: int = 4
) -> Any:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=version >= 3
    )
    (result,) = (await rig.ask(request, version)).results
    return result


async def configs(rig: Rig, kind: int = TOPIC, name: str = "t") -> dict[str, Any]:
    return {one.name: one for one in (await describe(rig, kind, name)).configs}


async def change(
    rig: Rig, *changes: tuple[str, int, str | None], name: str = "t", validate_only: bool = False
) -> Any:
    resource = IncrementalAlterConfigsResource(
        resource_type=TOPIC,
        resource_name=name,
        configs=[
            IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = (await rig.ask(request)).responses
    assert bool(result.error_message) == bool(result.error_code)
    return result


async def replace(rig: Rig, given: dict[str, str | None], **more: Any) -> ErrorCode:
    resource = AlterConfigsResource(
        resource_type=more.pop("kind", TOPIC),
        resource_name="t",
        configs=[AlterableConfig(name=name, value=value) for name, value in given.items()],
    )
    request = AlterConfigsRequest(resources=[resource], **{"validate_only": False, **more})
    return ErrorCode((await rig.ask(request)).responses[0].error_code)


# -- describing ------------------------------------------------------------------------------------


async def test_every_setting_of_a_topic_with_its_origin_type_and_meaning(rig: Rig) -> None:
    await rig.core.topics.create("t", config={"retention.ms": 5})
    found = await configs(rig)
    assert set(found) == set(TOPIC_SETTINGS)
    kept = found["retention.ms"]
    assert (kept.value, kept.config_source, kept.config_type) == ("5", OWN, LONG)
    assert [(one.name, one.value, one.source) for one in kept.synonyms] == [
        ("retention.ms", "5", OWN),
        ("log.retention.ms", str(168 * 3_600_000), DEFAULT),
    ]
    assert kept.documentation == TOPIC_SETTINGS["retention.ms"].doc
    flush = found["flush"]
    assert [(one.name, one.value, one.source) for one in flush.synonyms] == [
        ("topic.flush", "os", NODE),
        ("topic.flush", "sync", DEFAULT),
    ]
    assert (flush.config_source, flush.read_only, flush.is_sensitive) == (NODE, False, False)
    types = {name: found[name].config_type for name in found}
    assert (types["index.key"], types["cleanup.policy"]) == (BOOLEAN, LIST)
    assert (types["segment.bytes"], types["compression.type"]) == (INT, STRING)
    assert found["index.key"].value == "true"
    assert {name for name in found if found[name].read_only} == {
        *("storage.type", "segment.model", "index.key", "index.tag", "memory.persist")
    }


async def test_only_what_is_asked_for(rig: Rig) -> None:
    await rig.core.topics.create("t")
    found = (await describe(rig, keys=["flush", "nothing"])).configs
    assert [one.name for one in found] == ["flush"]
    assert (await describe(rig, keys=[])).configs == []
    assert (await describe(rig, version=1)).configs[0].documentation is None


async def test_a_broker_under_kafkas_names(rig: Rig) -> None:
    found = await configs(rig, BROKER, "1")
    assert found["num.partitions"].value == "2"
    assert found["num.partitions"].config_source == NODE
    assert found["message.max.bytes"].value == str((1 << 20) + 12)
    assert found["log.dirs"].value == str(rig.core.config.data_dir)
    assert found["broker.id"].value == found["node.id"].value == "1"
    assert found["advertised.listeners"].value.startswith("PLAINTEXT://127.0.0.1:")
    assert found["log.dirs"].read_only
    assert not found["log.retention.ms"].read_only
    assert len(found) >= len(ALL_SETTINGS), "two settings share a name"


@pytest.mark.parametrize(
    ("flags", "protocol"),
    [
        ({}, "PLAINTEXT"),
        ({"kafka_tls_certificate": "x"}, "SSL"),
        ({"sasl_enabled_mechanisms": "PLAIN"}, "SASL_PLAINTEXT"),
        ({"kafka_tls_certificate": "x", "sasl_enabled_mechanisms": "PLAIN"}, "SASL_SSL"),
    ],
)
async def test_how_clients_connect(started: Starter, flags: dict[str, str], protocol: str) -> None:
    async with started(**flags) as rig:
        found = await configs(rig, BROKER, "1")
        for name in ("listeners", "advertised.listeners"):
            assert found[name].value.partition("://")[0] == protocol


async def test_a_group_and_what_has_no_configs(rig: Rig) -> None:
    found = await configs(rig, GROUP, "g")
    assert found["consumer.session.timeout.ms"].value == "45000"
    assert (await describe(rig, BROKER, "")).configs == []
    refused = {
        (TOPIC, "u"): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (BROKER, "7"): ErrorCode.INVALID_REQUEST,
        (BROKER, "x"): ErrorCode.INVALID_REQUEST,
        (GROUP, ""): ErrorCode.INVALID_REQUEST,
        (LOGGER, "1"): ErrorCode.INVALID_REQUEST,
        (99, "1"): ErrorCode.INVALID_REQUEST,
    }
    for (kind, name), code in refused.items():
        result = await describe(rig, kind, name)
        assert ErrorCode(result.error_code) is code
        assert (result.resource_type, result.resource_name, result.configs) == (kind, name, [])


async def test_an_answer_is_bounded_whatever_is_asked_for(started: Starter) -> None:
    """What comes after what fits is refused by itself; no config is described twice."""
    async with started(kafka_answer_bytes_max=1 << 20) as rig:
        resources = [
            DescribeConfigsResource(
                resource_type=GROUP, resource_name=f"{number % 3000}", configuration_keys=None
            )
            for number in range(4000)
        ]
        request = DescribeConfigsRequest(resources=resources, include_documentation=True)
        results = (await rig.ask(request)).results
    assert [one.resource_name for one in results] == [str(number) for number in range(3000)]
    described = [bool(one.configs) for one in results]
    fits = described.index(False)
    assert fits > 100
    assert not any(described[fits:])
    assert {one.error_code for one in results[:fits]} == {0}
    assert {one.error_code for one in results[fits:]} == {ErrorCode.POLICY_VIOLATION}


async def test_resources(rig: Rig) -> None:
    await rig.core.topics.create("t")

    async def listed(kinds: list[int], version: int = 1) -> Any:
        answer = await rig.ask(ListConfigResourcesRequest(resource_types=kinds), version)
        found = [(one.resource_type, one.resource_name) for one in answer.config_resources]
        return ErrorCode(answer.error_code), found

    assert await listed([]) == (ErrorCode.NONE, [(TOPIC, "t"), (BROKER, "1")])
    assert await listed([TOPIC]) == (ErrorCode.NONE, [(TOPIC, "t")])
    assert await listed([GROUP, METRICS]) == (ErrorCode.NONE, [])
    assert await listed([3]) == (ErrorCode.UNSUPPORTED_VERSION, [])
    assert await listed([], 0) == (ErrorCode.NONE, [])


# -- changing --------------------------------------------------------------------------------------


async def test_the_four_operations(rig: Rig) -> None:
    await rig.core.topics.create("t", config={"flush": "sync"})
    assert (await change(rig, ("retention.ms", SET, "7"))).error_code == 0
    assert (await change(rig, ("cleanup.policy", APPEND, "compact"))).error_code == 0
    found = await configs(rig)
    assert (found["retention.ms"].value, found["cleanup.policy"].value) == ("7", "compact,delete")
    assert (await change(rig, ("cleanup.policy", SUBTRACT, "delete"))).error_code == 0
    assert (
        await change(rig, ("retention.ms", DELETE, None), ("flush", DELETE, None))
    ).error_code == 0
    found = await configs(rig)
    assert found["cleanup.policy"].value == "compact"
    assert (found["retention.ms"].config_source, found["retention.ms"].value) == (
        DEFAULT,
        str(168 * 3_600_000),
    )
    assert (found["flush"].config_source, found["flush"].value) == (NODE, "os")


REFUSED: dict[str, list[tuple[str, int, str | None]]] = {
    "an unknown name": [("retention", SET, "1")],
    "an unknown name to delete": [("retention", DELETE, None)],
    "a bad value": [("retention.ms", SET, "soon")],
    "no value": [("retention.ms", SET, None)],
    "fixed": [("index.key", SET, "false")],
    "fixed, deleted": [("index.tag", DELETE, None)],
    "no list": [("retention.ms", APPEND, "1")],
    "not in the list": [("cleanup.policy", APPEND, "burn")],
    "an empty item": [("cleanup.policy", SET, "delete,")],
    "one of two": [("retention.ms", SET, "9"), ("segment.ms", SET, "x")],
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("validate_only", [False, True])
async def test_a_refused_change_changes_nothing(rig: Rig, case: str, validate_only: bool) -> None:
    await rig.core.topics.create("t", config={"index.tag": False})
    before = await configs(rig)
    answer = await change(rig, *REFUSED[case], validate_only=validate_only)
    assert ErrorCode(answer.error_code) is ErrorCode.INVALID_CONFIG
    assert await configs(rig) == before


async def test_refusals_say_what_to_do(rig: Rig) -> None:
    await rig.core.topics.create("t")
    assert (
        "did you mean 'retention.ms'"
        in (await change(rig, ("retention.m", SET, "1"))).error_message
    )
    fixed = (await change(rig, ("storage.type", SET, "EngineMemory"))).error_message
    assert fixed == "storage.type is fixed when a topic is created"


async def test_other_refusals(rig: Rig) -> None:
    await rig.core.topics.create("t")
    same = ("retention.ms", SET, "1")
    assert ErrorCode((await change(rig, same, same)).error_code) is ErrorCode.INVALID_REQUEST
    operation = await change(rig, ("retention.ms", 9, "1"))
    assert ErrorCode(operation.error_code) is ErrorCode.INVALID_REQUEST
    nobody = await change(rig, same, name="u")
    assert ErrorCode(nobody.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await replace(rig, {}, kind=BROKER) is ErrorCode.INVALID_REQUEST, "broker 't'"
    assert await replace(rig, {}, kind=99) is ErrorCode.INVALID_REQUEST


async def test_a_resource_named_twice_is_not_changed(rig: Rig) -> None:
    await rig.core.topics.create("t")
    one = AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="t",
        configs=[AlterableConfig(name="flush", value="sync")],
    )
    answer = await rig.ask(AlterConfigsRequest(resources=[one, one], validate_only=False))
    codes = {ErrorCode(each.error_code) for each in answer.responses}
    assert codes == {ErrorCode.INVALID_REQUEST}
    assert (await configs(rig))["flush"].value == "os"


async def test_alter_configs_resets_what_it_does_not_name(rig: Rig) -> None:
    await rig.core.topics.create("t", config={"retention.ms": 5, "index.key": False})
    assert await replace(rig, {"segment.ms": "9"}, validate_only=True) is ErrorCode.NONE
    assert (await configs(rig))["retention.ms"].value == "5"
    assert await replace(rig, {"segment.ms": "9"}) is ErrorCode.NONE
    found = await configs(rig)
    assert (found["segment.ms"].value, found["retention.ms"].config_source) == ("9", DEFAULT)
    assert (found["index.key"].value, found["flush"].value) == ("false", "os")
    assert await replace(rig, {"index.key": "true"}) is ErrorCode.INVALID_CONFIG
    assert await replace(rig, {"index.key": "false"}) is ErrorCode.NONE


async def test_changes_at_the_same_time_do_not_undo_each_other(rig: Rig) -> None:
    await rig.core.topics.create("t")
    answers = await asyncio.gather(
        change(rig, ("cleanup.policy", APPEND, "compact")),
        change(rig, ("cleanup.policy", SUBTRACT, "delete")),
        change(rig, ("retention.ms", SET, "5")),
    )
    assert [one.error_message for one in answers] == [None] * 3
    found = await configs(rig)
    assert (found["cleanup.policy"].value, found["retention.ms"].value) == ("compact", "5")


async def test_what_is_told_is_what_holds(started: Starter) -> None:
    """What the node says about topics is taken when they are made, or when a setting is reset."""
    async with started() as rig:
        await rig.core.topics.create("t")
    async with started(topic_max_message_bytes=1000, topic_flush="sync") as rig:
        found = await configs(rig)
        assert (found["max.message.bytes"].value, found["max.message.bytes"].config_source) == (
            str(rig.services.broker_cache.topic("t").config["max.message.bytes"]),
            DEFAULT,
        )
        assert (found["flush"].value, found["flush"].config_source) == ("os", OWN)
        await change(rig, ("max.message.bytes", DELETE, None), ("flush", DELETE, None))
        found = await configs(rig)
        for name, value in (("max.message.bytes", "1000"), ("flush", "sync")):
            assert (found[name].value, found[name].config_source) == (value, NODE)
            assert str(rig.services.broker_cache.topic("t").config[name]) == value


async def test_validate_only_changes_nothing(rig: Rig) -> None:
    await rig.core.topics.create("t")
    assert (await change(rig, ("retention.ms", SET, "5"), validate_only=True)).error_code == 0
    assert (await configs(rig))["retention.ms"].config_source == DEFAULT


# -- taking effect ---------------------------------------------------------------------------------

ENGINES = [kind.value for kind in StorageType]


async def write(rig: Rig, count: int = 1, value: bytes = b"v" * 100) -> None:
    for number in range(count):
        await rig.services.drivers.write("t", Record(key=b"%d" % number, value=value), partition=0)


async def house(rig: Rig) -> int:
    """One round of housekeeping; the start of the log after it."""
    await rig.core.housekeeper.run_once()
    return (await rig.services.drivers.offsets("t", 0)).start


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_running_shard_heeds_the_change(rig: Rig, engine: str) -> None:
    await rig.core.topics.create("t", config={"storage.type": engine, "segment.bytes": 1 << 20})
    await write(rig, 20)
    before = len(await rig.services.drivers.segments("t", 0))
    await change(rig, ("segment.bytes", SET, "1024"))
    await write(rig, 40)
    assert len(await rig.services.drivers.segments("t", 0)) > before
    assert await house(rig) == 0
    await change(rig, ("retention.bytes", SET, "2048"))
    trimmed = await house(rig)
    assert trimmed > 0
    rig.clock.advance(60_000)
    await write(rig, 1)
    await change(rig, ("retention.bytes", DELETE, None), ("retention.ms", SET, "1000"))
    assert await house(rig) > trimmed


@pytest.mark.parametrize("engine", ENGINES)
async def test_compaction_begins_when_it_is_switched_on(rig: Rig, engine: str) -> None:
    await rig.core.topics.create("t", config={"storage.type": engine, "segment.bytes": 1024})
    await write(rig, 10)
    await write(rig, 20)
    await house(rig)
    assert len(await _values(rig)) == 30
    await change(rig, ("cleanup.policy", SET, "compact"))
    await house(rig)
    assert len(await _values(rig)) < 30


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_topic_without_a_cleanup_policy_keeps_everything(rig: Rig, engine: str) -> None:
    limits = {"segment.bytes": 1024, "retention.bytes": 1024, "retention.ms": 1}
    await rig.core.topics.create("t", config={"storage.type": engine, **limits})
    assert (await change(rig, ("cleanup.policy", SUBTRACT, "delete"))).error_code == 0
    assert (await configs(rig))["cleanup.policy"].value == ""
    await write(rig, 20)
    await write(rig, 20)
    rig.clock.advance(60_000)
    assert await house(rig) == 0
    assert len(await _values(rig)) == 40
    await change(rig, ("cleanup.policy", APPEND, "delete"))
    assert await house(rig) > 0


async def _values(rig: Rig) -> list[Record]:
    return await rig.services.drivers.read_by_offset("t", 0, Offset(0))


async def test_changes_survive_a_restart(started: Starter) -> None:
    async with started() as rig:
        await rig.core.topics.create("t", partitions=2)
        await change(rig, ("segment.bytes", SET, "1024"), ("retention.ms", SET, "-1"))
    async with started() as rig:
        found = await configs(rig)
        assert (found["segment.bytes"].value, found["segment.bytes"].config_source) == ("1024", OWN)
        assert found["retention.ms"].value == "-1"
        await write(rig, 30)
        assert len(await rig.services.drivers.segments("t", 0)) > 1
