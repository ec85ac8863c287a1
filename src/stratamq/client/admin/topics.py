"""Configs of topics, and the disk space of their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stratamq.client.cluster import TopicPartition
from stratamq.client.failures import check
from stratamq.client.router import Router, gathered
from stratamq.wire.kafka.protocol.messages.cluster_admin import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from stratamq.wire.kafka.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)

TOPIC = 2
SET, UNSET = 0, 1
SOURCES = {
    1: "topic",
    2: "broker",
    3: "every broker",
    4: "node",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValue:
    """A config and where its value comes from. The value of a secret is None."""

    name: str
    value: str | None
    source: str

    @property
    def is_default(self) -> bool:
        return self.source == "default"


async def describe_configs(router: Router, topic: str) -> list[ConfigValue]:
    """All configs of a topic, by name."""
    resource = DescribeConfigsResource(
        resource_type=TOPIC, resource_name=topic, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource])

    async def once() -> list[ConfigValue]:
        answer = (await router.ask_any(request, DescribeConfigsResponse)).results[0]
        check(answer.error_code, f"configs of topic {topic!r}", answer.error_message)
        found = (
            ConfigValue(
                name=one.name,
                value=one.value,
                source=SOURCES.get(one.config_source, "unknown"),
            )
            for one in answer.configs
        )
        return sorted(found, key=lambda one: one.name)

    return await router.retried(once)


async def alter_configs(
    router: Router, topic: str, put: Mapping[str, str], unset: Iterable[str] = ()
) -> None:
    """All of the changes or none. InvalidConfig says which name or value is refused."""
    changes = [
        *(
            IncrementalAlterableConfig(name=name, config_operation=SET, value=value)
            for name, value in put.items()
        ),
        *(
            IncrementalAlterableConfig(name=name, config_operation=UNSET, value=None)
            for name in unset
        ),
    ]
    resource = IncrementalAlterConfigsResource(
        resource_type=TOPIC, resource_name=topic, configs=changes
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)

    async def once() -> None:
        answer = (await router.ask_any(request, IncrementalAlterConfigsResponse)).responses[0]
        check(answer.error_code, f"configs of topic {topic!r}", answer.error_message)

    await router.retried(once)


async def log_folders(router: Router) -> list[DescribeLogDirsResult]:
    """The data folders of all nodes, with the space of their disks. Denied as below."""
    request = DescribeLogDirsRequest(topics=[])

    async def once() -> list[DescribeLogDirsResult]:
        servers = (await router.cluster([])).nodes.values()
        nodes = [await router.node(server) for server in servers]
        answers = await gathered(
            [node.ask(request, DescribeLogDirsResponse, router.request_s) for node in nodes]
        )
        for answer in answers:
            check(answer.error_code, "space of the nodes' disks")
        return [folder for answer in answers for folder in answer.results]

    return await router.retried(once)


async def partition_sizes(
    router: Router, topics: Mapping[str, Iterable[int]]
) -> dict[TopicPartition, int]:
    """Bytes on local disks, of the largest replica of each partition.

    Denied for callers without DESCRIBE on the cluster.
    """
    wanted = [
        DescribableLogDirTopic(topic=name, partitions=list(partitions))
        for name, partitions in topics.items()
    ]
    request = DescribeLogDirsRequest(topics=wanted)

    async def once() -> dict[TopicPartition, int]:
        servers = (await router.cluster([])).nodes.values()
        nodes = [await router.node(server) for server in servers]
        answers = await gathered(
            [node.ask(request, DescribeLogDirsResponse, router.request_s) for node in nodes]
        )
        sizes: dict[TopicPartition, int] = {}
        for answer in answers:
            check(answer.error_code, "sizes of partitions")
            for folder in answer.results:
                check(folder.error_code, f"sizes of partitions in {folder.log_dir}")
                for topic in folder.topics:
                    for part in topic.partitions:
                        place = TopicPartition(topic.name, part.partition_index)
                        sizes[place] = max(sizes.get(place, 0), part.partition_size)
        return sizes

    return await router.retried(once)
