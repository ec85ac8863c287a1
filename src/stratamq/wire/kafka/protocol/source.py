"""Python source in the making: lines, their indentation, and the objects they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stratamq.wire.kafka.protocol.schema import FieldSpec, MessageSpec, fields_of

STEP_ELEMENTS = 256
"""Elements of arrays that are read or written between two pauses."""


def stem(expression: str) -> str:
    """The field's name in `o_1.name`: variables are called after what they hold."""
    return expression.rpartition(".")[2]


class FunctionSource:
    """Text that grows line by line, and the namespace it will run in. With `steps`, the function
    is a generator that yields now and then."""

    def __init__(self, message: MessageSpec, version: int, *, steps: bool = False) -> None:
        self.version = version
        self.steps = steps
        self.flexible = version in message.flexible
        self.title = f"{message.name} v{version}"
        self.namespace: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._taken = 0

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent what comes inside."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A name that is not in use."""
        self._taken += 1
        return f"{stem}_{self._taken}"

    def bind(self, name: str, value: object) -> str:
        """Let the code say `name` and mean `value`."""
        known = self.namespace.setdefault(name, value)
        assert known is value, f"{name} means two things"
        return name

    def bind_type(self, struct_type: type) -> str:
        """Classes keep their names; those of the same name in other modules get a number."""
        name = struct_type.__name__
        while self.namespace.setdefault(name, struct_type) is not struct_type:
            name += "_"
        return name

    # -- steps -------------------------------------------------------------------------------------

    def begin_steps(self) -> None:
        if self.steps:
            self.line("step = 0")
            self.line("yield")  # also a message without arrays is a generator

    def step(self, *first: str) -> None:
        """One more element is done. Lines that are to run before a pause come `first`."""
        if self.steps:
            self.line("step += 1")
            with self.block(f"if step >= {STEP_ELEMENTS}:"):
                for text in (*first, "step = 0", "yield"):
                    self.line(text)

    # -- the schema, as this version has it --------------------------------------------------------

    def plain_fields(self, struct_type: type) -> list[FieldSpec]:
        return [f for f in self._present(struct_type) if f.tag is None]

    def tagged_fields(self, struct_type: type) -> list[FieldSpec]:
        """By ascending tag, as they must be on the wire."""
        tagged = [(f.tag, f) for f in self._present(struct_type) if f.tag is not None]
        return [f for _, f in sorted(tagged, key=lambda pair: pair[0])]

    def absent_fields(self, struct_type: type) -> list[FieldSpec]:
        return [f for f in fields_of(struct_type) if self.version not in f.versions]

    def _present(self, struct_type: type) -> list[FieldSpec]:
        return [f for f in fields_of(struct_type) if self.version in f.versions]
