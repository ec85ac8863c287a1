"""Settings as a table: name, kind, default, meaning. Topic and node configs are built from it.

A `Setting` knows how to read its value from text, so that TOML, environment variables, command-line
flags and Kafka's config APIs all give the same value and the same complaint.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from stratamq.model.dataclass import dataclass
from stratamq.model.errors import InvalidConfig
from stratamq.model.settings.kafka_names import explain

Value = bool | int | str

NAME_CHARS_MAX = 100
"""A longer name is no typing error of a known one."""

VALUE_CHARS_MAX = 256 << 10
"""A schema is the longest value. Configs stay in memory, with those of all topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One named setting. The type of `default` is the type of the setting.

    With `many`, the value is a list of choices with commas between. One that is `fixed` is said
    once, when its topic is created. One that is `dynamic` may change while a node runs: the
    code that uses it reads it each time, or listens for changes. One that is `idle` is accepted
    for Kafka's tools and has no effect.
    """

    name: str
    default: Value
    doc: str
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    many: bool = False
    fixed: bool = False
    dynamic: bool = False
    idle: bool = False

    def parse(self, raw: object) -> Value:
        """The value that `raw` (a number, a bool or text) stands for, else InvalidConfig."""
        if isinstance(self.default, bool):
            text = str(raw).strip().lower()
            if text not in ("true", "false"):
                raise InvalidConfig(f"{self.name}: {raw!r} is not true or false")
            return text == "true"
        if isinstance(self.default, int):
            return self._parse_int(raw)
        return self._parse_text(str(raw).strip())

    def _parse_int(self, raw: object) -> int:
        try:
            number = int(str(raw).strip())
        except ValueError:
            raise InvalidConfig(f"{self.name}: {raw!r} is not a whole number") from None
        if self.minimum is not None and number < self.minimum:
            raise InvalidConfig(f"{self.name}: {number} is below {self.minimum}")
        if self.maximum is not None and number > self.maximum:
            raise InvalidConfig(f"{self.name}: {number} is above {self.maximum}")
        return number

    def _parse_text(self, text: str) -> str:
        """A list comes back in the order of the choices, so that the same list is always the same
        text. Empty text is the empty list."""
        if len(text) > VALUE_CHARS_MAX:
            raise InvalidConfig(
                f"{self.name}: {len(text)} characters, and {VALUE_CHARS_MAX} is the most"
            )
        items = [text]
        if self.many:
            items = [item.strip() for item in text.split(",")] if text else []
        for item in items:
            if self.choices and item not in self.choices:
                known = ", ".join(self.choices)
                raise InvalidConfig(f"{self.name}: {item!r} is not one of {known}")
        return ",".join(one for one in self.choices if one in items) if self.many else text


def unknown_name(name: str, known: Collection[str]) -> InvalidConfig:
    """The refusal of an unknown name: why, if Kafka has it, else with the nearest known one."""
    if len(name) > NAME_CHARS_MAX:  # to compare costs more than linear, and the name is a client's
        return InvalidConfig(f"unknown setting {name[:NAME_CHARS_MAX]!r}...")
    if explained := explain(name, known):
        return InvalidConfig(explained)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return InvalidConfig(f"unknown setting {name!r}{hint}")


def parse_all(table: Mapping[str, Setting], given: Mapping[str, Any]) -> dict[str, Value]:
    """Every setting of the table, given or default."""
    for name in given:
        if name not in table:
            raise unknown_name(name, table)
    return {
        name: setting.parse(given[name]) if name in given else setting.default
        for name, setting in table.items()
    }
