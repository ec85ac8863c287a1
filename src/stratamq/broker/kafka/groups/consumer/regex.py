"""Topic patterns, matched in time linear in pattern and name, whatever a client sends.

Python's own `re` can be made to run for years. This one understands the part of RE2's syntax that
topic patterns are made of (literals, `.`, classes, groups, `|`, `*`, `+`, `?`, `{m,n}`, `^`, `$`,
`\\d \\w \\s`, `(?i)` in front) and follows all ways through the pattern at once.
"""

from __future__ import annotations

import string
from collections.abc import Collection
from typing import NamedTuple

from stratamq.model.dataclass import dataclass

PATTERN_CHARS_MAX = 1000
STEPS_MAX = 2_000
"""Size of a pattern once its repetitions are written out. Above: refused."""
REPEAT_MAX = 1000
STATES_MAX = 1000
"""Remembered of a pattern. When there are more, all are forgotten and worked out again."""

_DIGITS = frozenset(string.digits)
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_SPACE = frozenset(" \t\n\r\f\v")
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_ALL = frozenset(map(chr, range(256)))
_FOLD = "(?i)"


class BadPattern(ValueError):
    """Not a pattern we read."""


class Match(NamedTuple):
    """Take one character out of a set; None stands for any but a line end."""

    chars: frozenset[str] | None


class Split(NamedTuple):
    """Go on at both steps, given relative to this one."""

    ways: tuple[int, ...]


class Edge(NamedTuple):
    """Go on only at the start, or only at the end."""

    at_end: bool


Step = Match | Split | Edge
Program = list[Step]


@dataclass(slots=True)
class _State:
    """All steps that the pattern may be at after some characters, and where each next one leads.
    `accepts`: a name may end here."""

    positions: frozenset[int]
    accepts: bool
    after: dict[str, _State]


class Pattern:
    """A compiled pattern. It has to match the whole name.

    Where a character leads from a state is worked out once and remembered, so that many names cost
    little more than their characters. `work` counts what was done: about a million a second.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.work = 0
        self._states: dict[frozenset[int], _State] = {}
        self._start = self._state({0}, at_start=True)

    def matches(self, name: str) -> bool:
        self.work += 1 + len(name) // 8
        state = self._start
        for char in name:
            state = state.after.get(char) or self._step(state, char)
            if not state.positions:
                return False
        return state.accepts

    def _step(self, state: _State, char: str) -> _State:
        self.work += len(state.positions)
        after = frozenset(at + 1 for at in state.positions if self._takes(at, char))
        found = self._states.get(after)
        if found is None:
            if len(self._states) >= STATES_MAX:
                for one in (self._start, *self._states.values()):
                    one.after.clear()
                self._states.clear()
            found = self._states[after] = self._state(after)
        state.after[char] = found
        return found

    def _state(self, positions: Collection[int], *, at_start: bool = False) -> _State:
        reached = self._closure(positions, at_start=at_start)
        ends = self._closure(reached, at_start=at_start, at_end=True)
        return _State(reached, len(self._program) in ends, {})

    def _takes(self, at: int, char: str) -> bool:
        step = self._program[at] if at < len(self._program) else None
        if not isinstance(step, Match):
            return False
        return char != "\n" if step.chars is None else char in step.chars

    def _closure(
        self, positions: Collection[int], *, at_start: bool, at_end: bool = False
    ) -> frozenset[int]:
        """All steps that can be reached without taking a character."""
        found: set[int] = set()
        waiting = list(positions)
        while waiting:
            at = waiting.pop()
            if at in found:
                continue
            found.add(at)
            step = self._program[at] if at < len(self._program) else None
            if isinstance(step, Split):
                waiting += [at + way for way in step.ways]
            elif isinstance(step, Edge) and (at_end if step.at_end else at_start):
                waiting.append(at + 1)
        self.work += len(found)
        return frozenset(found)


def compile_pattern(text: str) -> Pattern:
    """BadPattern when it is too long or not understood."""
    if len(text) > PATTERN_CHARS_MAX:
        raise BadPattern(f"a pattern has at most {PATTERN_CHARS_MAX} characters")
    folds = text.startswith(_FOLD)
    parser = PatternParser(text.removeprefix(_FOLD), folds=folds)
    return Pattern(parser.parse())


class PatternParser:
    """Recursive descent: alternatives of sequences of repeated atoms."""

    def __init__(self, text: str, *, folds: bool) -> None:
        self._text = text
        self._folds = folds
        self._at = 0
        self._depth = 0

    def parse(self) -> Program:
        program = self._alternatives()
        if self._at < len(self._text):
            raise BadPattern(f"unexpected {self._text[self._at]!r} at {self._at}")
        return program

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise BadPattern("the pattern ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _alternatives(self) -> Program:
        self._depth += 1
        if self._depth > 50:
            raise BadPattern("groups are nested too deep")
        program = self._sequence()
        while self._peek() == "|":
            self._next()
            other = self._sequence()
            program = [
                Split((1, len(program) + 2)),
                *program,
                Split((len(other) + 1,)),
                *other,
            ]
        self._depth -= 1
        return _bounded(program)

    def _sequence(self) -> Program:
        program: Program = []
        while self._peek() not in ("", "|", ")"):
            program = _bounded(program + self._repeated())
        return program

    def _repeated(self) -> Program:
        program = self._atom()
        while (bounds := self._bounds()) is not None:
            if self._peek() == "?":  # lazy: the same names match
                self._next()
            program = _repeat(program, *bounds)
        return program

    def _bounds(self) -> tuple[int, int | None] | None:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self._peek() in simple and self._peek():
            return simple[self._next()]
        if self._peek() != "{":
            return None
        end = self._text.find("}", self._at)
        low, comma, high = self._text[self._at + 1 : max(end, 0)].partition(",")
        if end < 0 or not low.isascii() or not low.isdigit() or (high and not high.isdigit()):
            return None  # a brace like any other character
        self._at = end + 1
        least = int(low)
        most = int(high) if high else (None if comma else least)
        if max(least, most or 0) > REPEAT_MAX or (most is not None and most < least):
            raise BadPattern(f"cannot repeat {{{low}{comma}{high}}}")
        return least, most

    def _atom(self) -> Program:
        char = self._next()
        if char == "(":
            return self._group()
        if char in "*+?":
            raise BadPattern(f"nothing to repeat at {self._at - 1}")
        if char == "^" or char == "$":
            return [Edge(char == "$")]
        if char == ".":
            return [Match(None)]
        if char == "[":
            return [Match(self._class())]
        if char == "\\":
            return self._escaped()
        return [Match(self._cased({char}))]

    def _cased(self, chars: set[str]) -> frozenset[str]:
        """The characters, in upper and lower case where the pattern does not care."""
        both = {one for char in chars for one in (char.lower(), char.upper())}
        return frozenset(chars | both if self._folds else chars)

    def _group(self) -> Program:
        if self._peek() == "?":
            self._next()
            if self._next() != ":":
                raise BadPattern("of the (?...) groups only (?:...) is understood")
        program = self._alternatives()
        if self._peek() != ")":
            raise BadPattern("a group is not closed")
        self._next()
        return program

    def _escaped(self) -> Program:
        char = self._next()
        if char in "Az":
            return [Edge(char == "z")]
        return [Match(_escape(char))]

    def _class(self) -> frozenset[str]:
        inverted = self._peek() == "^"
        if inverted:
            self._next()
        chars: set[str] = set()
        first = True
        while first or self._peek() != "]":
            chars |= self._class_item()
            first = False
        self._next()
        cased = self._cased(chars)
        return _ALL - cased if inverted else cased

    def _class_item(self) -> frozenset[str]:
        char = self._next()
        low = _escape(self._next()) if char == "\\" else frozenset(char)
        more = self._text[self._at : self._at + 2]
        if len(low) != 1 or len(more) < 2 or more[0] != "-" or more[1] == "]":
            return low
        self._next()
        char = self._next()
        high = _escape(self._next()) if char == "\\" else frozenset(char)
        (start,), end = low, max(high)
        if len(high) != 1 or start > end or ord(end) > 0xFFFF:
            raise BadPattern(f"{start}-{end} is no range")
        return frozenset(map(chr, range(ord(start), ord(end) + 1)))


def _escape(char: str) -> frozenset[str]:
    if char in _CLASSES:
        return _CLASSES[char]
    if char.lower() in _CLASSES:
        return _ALL - _CLASSES[char.lower()]
    if char in _ESCAPES:
        return frozenset(_ESCAPES[char])
    if char.isalnum():
        raise BadPattern(f"\\{char} is not understood")
    return frozenset(char)


def _repeat(program: Program, least: int, most: int | None) -> Program:
    size = len(program)
    if size * max(least, most or 0) > STEPS_MAX:
        raise BadPattern("the pattern is too large")
    if most is None:
        return _bounded(program * least + [Split((1, size + 2)), *program, Split((-size - 1,))])
    optional: Program = []
    for _ in range(most - least):
        optional = [Split((1, size + len(optional) + 1)), *program, *optional]
    return _bounded(program * least + optional)


def _bounded(program: Program) -> Program:
    if len(program) > STEPS_MAX:
        raise BadPattern("the pattern is too large")
    return program
