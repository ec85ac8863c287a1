"""Configs of single groups: described, changed, kept, and used by a group that is running."""

from __future__ import annotations

from typing import Any

import pytest

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
from stratamq.wire.kafka.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from tests.broker.admin.conftest import Rig, Starter

BROKER, GROUP = 4, 32
NODE, DEFAULT, OWN = 4, 5, 8
SET, DELETE, APPEND = range(3)
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


async def configs(rig: Rig, name: str = "g") -> dict[str, tuple[str, int]]:
    resource = DescribeConfigsResource(
        resource_type=GROUP, resource_name=name, configuration_keys=None
    )
    (result,) = (await rig.ask(DescribeConfigsRequest(resources=[resource]))).results
    assert not any(one.read_only for one in result.configs)
    return {one.name: (one.value, one.config_source) for one in result.configs}


async def change(rig: Rig, *changes: tuple[str, int, str | None], **more: Any) -> Any:
    resource = IncrementalAlterConfigsResource(
        resource_type=GROUP,
        resource_name=more.get("name", "g"),
        configs=[
            IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=more.get("validate_only", False)
    )
    (result,) = (await rig.ask(request)).responses
    return result


async def beat(rig: Rig, epoch: int, member: str = "m") -> Any:
    joins = epoch == 0
    return await rig.ask(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=["t"] if joins else None,
            topic_partitions=[] if joins else None,
        )
    )


async def test_a_groups_own_value_stands_above_the_nodes(started: Starter) -> None:
    async with started(group_consumer_heartbeat_interval_ms=6000) as rig:
        assert await configs(rig) == {SESSION: ("45000", DEFAULT), HEARTBEAT: ("6000", NODE)}
        answer = await change(rig, (SESSION, SET, "50000"), (HEARTBEAT, SET, "7000"))
        assert answer.error_code == 0
        assert await configs(rig) == {SESSION: ("50000", OWN), HEARTBEAT: ("7000", OWN)}
        assert (await configs(rig, "h"))[SESSION] == ("45000", DEFAULT)
        assert (await change(rig, (HEARTBEAT, DELETE, None))).error_code == 0
        assert await configs(rig) == {SESSION: ("50000", OWN), HEARTBEAT: ("6000", NODE)}
    async with started() as rig:
        assert (await configs(rig))[SESSION] == ("50000", OWN), "kept over a restart"
        request = ListConfigResourcesRequest(resource_types=[GROUP])
        (listed,) = (await rig.ask(request)).config_resources
        assert (listed.resource_name, listed.resource_type) == ("g", GROUP)
        assert (await change(rig, (SESSION, DELETE, None))).error_code == 0
        assert (await rig.ask(request)).config_resources == []


async def test_alter_configs_resets_what_it_does_not_name(rig: Rig) -> None:
    await change(rig, (SESSION, SET, "50000"))
    resource = AlterConfigsResource(
        resource_type=GROUP,
        resource_name="g",
        configs=[AlterableConfig(name=HEARTBEAT, value="8000")],
    )
    await rig.ask(AlterConfigsRequest(resources=[resource], validate_only=False))
    assert await configs(rig) == {SESSION: ("45000", DEFAULT), HEARTBEAT: ("8000", OWN)}


REFUSED: dict[str, list[tuple[str, int, str | None]]] = {
    "an unknown name": [("session.timeout.ms", SET, "45000")],
    "a bad value": [(SESSION, SET, "long")],
    "no value": [(SESSION, SET, None)],
    "below the least": [(SESSION, SET, "44999")],
    "above the most": [(SESSION, SET, "60001")],
    "below the least heartbeat": [(HEARTBEAT, SET, "4999")],
    "no list": [(SESSION, APPEND, "1")],
    "one of two": [(SESSION, SET, "50000"), (HEARTBEAT, SET, "x")],
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("validate_only", [False, True])
async def test_a_refused_change_changes_nothing(rig: Rig, case: str, validate_only: bool) -> None:
    before = await configs(rig)
    answer = await change(rig, *REFUSED[case], validate_only=validate_only)
    assert ErrorCode(answer.error_code) is ErrorCode.INVALID_CONFIG
    assert await configs(rig) == before


async def test_a_session_is_longer_than_an_interval(started: Starter) -> None:
    bounds = {
        "group_consumer_min_session_timeout_ms": 1,
        "group_consumer_min_heartbeat_interval_ms": 1,
    }
    async with started(**bounds) as rig:
        assert (await change(rig, (SESSION, SET, "6000"))).error_code == 0
        answer = await change(rig, (HEARTBEAT, SET, "6000"))
        assert ErrorCode(answer.error_code) is ErrorCode.INVALID_CONFIG
        assert SESSION in answer.error_message
        assert ErrorCode((await change(rig, name="")).error_code) is not ErrorCode.NONE


async def test_there_is_a_limit_to_configured_groups(started: Starter) -> None:
    async with started(meta_configs_max=1) as rig:
        assert (await change(rig, (SESSION, SET, "50000"))).error_code == 0
        assert (await change(rig, (SESSION, SET, "51000"))).error_code == 0
        answer = await change(rig, (SESSION, SET, "50000"), name="h")
        assert ErrorCode(answer.error_code) is ErrorCode.POLICY_VIOLATION
        assert "configs_max" in answer.error_message


async def test_a_running_group_uses_what_was_changed(rig: Rig) -> None:
    await rig.core.topics.create("t", partitions=1)
    joined = await beat(rig, 0)
    assert joined.heartbeat_interval_ms == 5000
    await change(rig, (SESSION, SET, "60000"), (HEARTBEAT, SET, "7000"))
    assert (await beat(rig, joined.member_epoch)).heartbeat_interval_ms == 7000
    groups = rig.groups.coordinator
    state = groups.states["g"]
    assert state.group.next_ms() == rig.clock.now_ms() + 60_000
    await change(rig, (SESSION, DELETE, None))
    await beat(rig, joined.member_epoch)
    assert state.group.next_ms() == rig.clock.now_ms() + 45_000


async def test_a_group_without_its_own_follows_the_broker(rig: Rig) -> None:
    await rig.core.topics.create("t", partitions=1)
    joined = await beat(rig, 0)
    resource = IncrementalAlterConfigsResource(
        resource_type=BROKER,
        resource_name="1",
        configs=[
            IncrementalAlterableConfig(
                name=f"group.{HEARTBEAT}", config_operation=SET, value="9000"
            )
        ],
    )
    (answer,) = (
        await rig.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    ).responses
    assert answer.error_code == 0
    assert (await beat(rig, joined.member_epoch)).heartbeat_interval_ms == 9000
