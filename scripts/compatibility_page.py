"""Write docs/kafka-compatibility.md from the tables of APIs and settings."""

# ruff: noqa: E501  (a row of a table is one line)

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from stratamq.broker.kafka.api_versions import FEATURES, NOT_SERVED
from stratamq.broker.kafka.security.sasl import Sasl
from stratamq.model.config import ALL_SETTINGS, GROUP_SETTINGS
from stratamq.model.settings.kafka_names import (
    BROKER_REFUSED,
    GROUP_REFUSED,
    KAFKA_NAMES,
    SAME_NAMES,
    SHOWN,
    TOPIC_REFUSED,
)
from stratamq.model.settings.setting import Setting
from stratamq.model.settings.topic import TOPIC_SETTINGS
from stratamq.wire.kafka.protocol import ADVERTISED_FROM, ALL_VERSIONS, APIS, Served, Versions

PAGE = Path(__file__).resolve().parent.parent / "docs" / "kafka-compatibility.md"

OURS_SINCE = 32_000
"""Keys of APIs that Kafka does not have."""

IDLE = "Accepted for Kafka's tools, without effect"

SERVED: Served = {**ALL_VERSIONS, **Sasl.served}

TOPIC_ONLY_OURS = frozenset(
    [
        "storage.type",
        "segment.model",
        "commit.policy",
        "flush",
        "index.key",
        "index.tag",
        "record.ttl.ms",
        "memory.persist",
        "tier.format",
        "lake.value.format",
        "lake.value.schema",
        "lake.flush.interval.ms",
        "lake.iceberg",
    ]
)
"""Settings of topics that Kafka does not have: docs/configuration.md has them."""

HEAD = """\
# Compatibility with Apache Kafka

Written by `make docs` from the tables of APIs and settings in the code and
`scripts/compatibility_page.py`. Do not edit it by hand.

Kafka clients work unmodified. Tested with every change: librdkafka (confluent-kafka, kcat), the Java
client with Kafka's own command-line tools, kafka-python, aiokafka, kafkajs and Spark's
`format("kafka")`. The reference is Apache Kafka 4.1.

| you want to know | see |
|---|---|
| whether your client can talk to a node | [APIs](#apis) |
| what becomes of a config that you set | [configs of topics](#configs-of-topics), \
[of brokers](#configs-of-brokers), [of groups](#configs-of-groups) |
| what behaves differently | [differences](#differences) |
| which command replaces `kafka-….sh` | [the command line](cli.md#coming-from-kafka) |

"""

DIFFERENCES = """\
## Differences

What a Kafka user would notice:

| subject | Apache Kafka | here |
|---|---|---|
| acknowledged | in the page cache of the replicas in sync | on disk, fsynced: `flush=sync` is the \
default. `flush=os` is as Kafka does it |
| replicas | any number | one node, so a replication factor above 1 is refused; ask for 1 or -1 |
| internal topics | `__consumer_offsets`, `__transaction_state` are topics | groups and transactions \
are rows of the Meta Service; no such topic can be read |
| defaults for topics | a changed default reaches topics that exist | a topic keeps what it had when it \
was created; deleting its setting gives it the new default |
| altering a broker | `log.retention.ms` and many others | those marked *while it runs* below; all others \
are refused by name instead of being stored without effect |
| unknown configs | a broker ignores those in its properties file | refused at the start and by every \
API, with the reason or the nearest name |
| end of a transaction | answered when it is decided | answered when its marks are written: a little \
later, and the next one can begin at once |
| deleting records | below an offset (DeleteRecords) | also by key or single offset, on every tier \
(`stratamq delete`) |
| tiered storage | a plug-in, configured per cluster; `remote.storage.enable=true` per topic | built in \
with `store.url`; a topic moves its past when `local.retention.ms` or `local.retention.bytes` says so, as \
Parquet. `remote.storage.enable` is `true` unless a topic turns it off |
| compaction | by dirty ratio, with threads of its own | every round of housekeeping compacts what it may |
| quotas | also by address, and for controller mutations | by user and client id: bytes in, bytes out, \
time. Others are refused |
| authentication | also GSSAPI, OAUTHBEARER, delegation tokens | PLAIN, SCRAM-SHA-256 and -512, TLS \
certificates; see [security](security.md) |
| certificates | JKS, PKCS12 or PEM stores | PEM files, read again at SIGHUP |
| a fetch from the nearest replica | `replica.selector.class` | there is one replica |
| logs | log4j; levels by `kafka-configs --entity-type broker-loggers` | `log.level` and `log.format` at \
the start |
| metrics | JMX | [Prometheus over HTTP](metrics.md) |
| data folder | one of Kafka's | segment files are Kafka's and `kafka-dump-log.sh` reads them, but a \
node refuses a folder of a Kafka broker: copy the topics by a client |
"""


def advertised(key: int) -> Versions:
    """What ApiVersions answers about an API."""
    return Versions(ADVERTISED_FROM.get(key, SERVED[key].first), SERVED[key].last)


class ConfigRow(NamedTuple):
    """One config of Kafka's; `kind` is works, idle, shown or refused."""

    name: str
    kind: str
    meaning: str


# -- rows ------------------------------------------------------------------------------------------


def topic_rows() -> list[ConfigRow]:
    ours = [one for name, one in TOPIC_SETTINGS.items() if name not in TOPIC_ONLY_OURS]
    return _sorted([_row(one.name, one, one.doc) for one in ours], TOPIC_REFUSED)


def group_rows() -> list[ConfigRow]:
    ours = [_row(name, one, one.doc) for name, one in GROUP_SETTINGS.items()]
    return _sorted(ours, GROUP_REFUSED)


def broker_rows() -> list[ConfigRow]:
    named = {name: name for name in SAME_NAMES} | {
        kafkas: our for our, kafkas in KAFKA_NAMES.items()
    }
    ours = [_row(name, ALL_SETTINGS[our], _on_a_node(our, name)) for name, our in named.items()]
    shown = [ConfigRow(name, "shown", f"Follows from {origin}.") for name, origin in SHOWN.items()]
    return _sorted([*ours, *shown], BROKER_REFUSED)


def _on_a_node(our: str, name: str) -> str:
    setting = ALL_SETTINGS[our]
    if setting.idle:
        return setting.doc
    when = " *While it runs.*" if setting.dynamic else " *At the start.*"
    return (f"`{our}`: " if our != name else "") + setting.doc + when


def _row(name: str, setting: Setting, meaning: str) -> ConfigRow:
    if setting.idle:
        return ConfigRow(name, "idle", meaning.removeprefix(IDLE).removeprefix(": "))
    return ConfigRow(name, "works", meaning)


def _sorted(rows: Iterable[ConfigRow], refused: Mapping[str, str]) -> list[ConfigRow]:
    others = [ConfigRow(name, "refused", why) for name, why in refused.items()]
    return sorted([*rows, *others])


# -- the page --------------------------------------------------------------------------------------


def page() -> str:
    return HEAD + "\n".join([*_apis(), "", *_configs(), DIFFERENCES])


def _apis() -> Iterator[str]:
    features = ", ".join(f"`{name}` {level}" for name, level in FEATURES.items())
    yield "## APIs\n"
    yield f"What ApiVersions answers, with the features {features}. What is not served is not advertised.\n"
    yield from ("| key | API | versions | |", "|---|---|---|---|")
    for key, api in APIS.items():
        first, last = advertised(key)
        said = [f"advertised as {first}-{last} for older clients"] * (first != SERVED[key].first)
        said += ["only with `sasl.enabled.mechanisms`"] * (key in Sasl.served)
        said += ["not Kafka's: used by `stratamq` and Spark"] * (key >= OURS_SINCE)
        yield f"| {key} | {api.name} | {SERVED[key]} | {'; '.join(said)} |"
    yield "\nNot served:\n"
    yield from ("| APIs | why |", "|---|---|")
    for why, names in NOT_SERVED.items():
        yield f"| {', '.join(names.split())} | {why} |"


def _configs() -> Iterator[str]:
    yield (
        "## Configs\n\n*works*: it does what it does in Kafka, as far as the text says. *idle*: it is "
        "checked, stored and returned, and has no effect. *shown*: DescribeConfigs shows it, and it "
        "cannot be set. *refused*: INVALID_CONFIG, with the reason.\n"
    )
    yield "### Configs of topics\n\nThose that only StrataMQ has are in [configuration.md](configuration.md#topics).\n"
    yield from _table(topic_rows())
    yield (
        "\n### Configs of brokers\n\nBy the names that Kafka's tools know. Where a setting has another "
        "name in a node's file, flags and environment, that comes first. *While it runs*: it can be "
        "altered by Kafka's tools. *At the start*: it is read when the node starts.\n"
    )
    yield from _table(broker_rows())
    yield "\n### Configs of groups\n"
    yield from _table(group_rows())
    yield (
        "\nConfigs of broker loggers (`BROKER_LOGGER`) and of client metrics (`CLIENT_METRICS`) are "
        "refused with INVALID_REQUEST: there are none.\n"
    )


def _table(rows: Iterable[ConfigRow]) -> Iterator[str]:
    yield from ("| config | here | |", "|---|---|---|")
    for row in rows:
        yield f"| `{row.name}` | {row.kind} | {row.meaning.replace('|', '/')} |"


if __name__ == "__main__":
    PAGE.write_text(page())
