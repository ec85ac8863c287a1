"""Write docs/configuration.md from the settings tables, so that the page cannot lag behind them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stratamq.model.config import ALL_SETTINGS, env_name, flag_name
from stratamq.model.settings.kafka_names import broker_name
from stratamq.model.settings.node import GROUPS
from stratamq.model.settings.setting import Setting
from stratamq.model.settings.topic import TOPIC_SETTINGS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
EXAMPLE = "kafka.port"

HEAD = f"""\
# Configuration

Written by `make docs` from the tables in `src/stratamq/model/settings/`. Do not edit it by
hand.

A setting has one name and may be given in three places. The first of them that has it wins:

1. a flag of `stratamq server`: `{flag_name(EXAMPLE)} 9092`;
2. an environment variable: `{env_name(EXAMPLE)}=9092`;
3. one TOML file, named by `--config FILE` or `STRATAMQ_CONFIG=FILE`: `{EXAMPLE} = 9092`, or
   `port = 9092` below `[kafka]`.

An unknown name is refused with the nearest known one, and a bad value with the reason, before
anything is started. `stratamq config` takes the same flags and prints what would be used, with the
source of each value.

Sizes are bytes and times are milliseconds; units stand in the names.

"""

TOPICS = """\
## Topics

A topic takes these when it is created, and most of them can be changed later. With `topic.` before
the name they are node settings, which set what topics get that say nothing else:
`--topic-retention-ms 3600000`, `STRATAMQ_TOPIC_RETENTION_MS=3600000`. In the file they stand below
`[topic]`, and names with a dot need quotes there, since `flush` is a value and cannot be a table:

```toml
[topic]
flush = "interval"
"flush.ms" = 200
```

"""


DYNAMIC = """\
## While a node runs

These can be altered while the node runs, with Kafka's tools and clients (`kafka-configs`,
IncrementalAlterConfigs, AlterConfigs), under the names that Kafka's tools know: for one broker
(`--entity-type brokers --entity-name 1`) or for all of them (`--entity-default`). An alteration is
stored by the Meta Service, takes effect at once, holds after a restart, and wins over flags,
environment and file until it is deleted. All other settings are refused by name: set them where the
node is started.

Settings of topics (`topic.`) are what topics get that are created from then on, and what a topic's
setting that is deleted goes back to. Unlike in Kafka, topics that exist keep what they have.

A consumer group can have `consumer.session.timeout.ms` and `consumer.heartbeat.interval.ms` of its
own (`--entity-type groups --entity-name my-group`), within the bounds that `group.consumer.min.…`
and `group.consumer.max.…` set. Its members use them from their next heartbeat on.

| setting | Kafka's tools call it |
|---|---|
"""


def page() -> str:
    parts = [HEAD]
    for title, group in GROUPS.items():
        parts += [f"## {title}\n\n", table(group), "\n"]
    parts += [TOPICS, table(TOPIC_SETTINGS.values()), "\n", DYNAMIC]
    return "".join(
        parts + [f"| `{n}` | `{broker_name(n)}` |\n" for n, s in ALL_SETTINGS.items() if s.dynamic]
    )


def table(settings: Iterable[Setting]) -> str:
    rows = ["| setting | default | values | meaning |", "|---|---|---|---|"]
    rows += [
        f"| `{each.name}` | `{shown(each)}` | {values(each)} | {each.doc.replace('|', '/')} |"
        for each in settings
    ]
    return "\n".join(rows) + "\n"


def shown(setting: Setting) -> str:
    default = setting.default
    return str(default).lower() if isinstance(default, bool) else str(default)


def values(setting: Setting) -> str:
    """What may be given, in a few words."""
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    if isinstance(setting.default, bool):
        return "`true`, `false`"
    if not isinstance(setting.default, int):
        return "text"
    if setting.maximum is not None:
        return f"{setting.minimum} to {setting.maximum}"
    return "a number" if setting.minimum is None else f"{setting.minimum} or more"


if __name__ == "__main__":
    PAGE.write_text(page())
