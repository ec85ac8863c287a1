"""What tests must not do, found in their syntax. Pure: a source in, findings out.

| rule     | finds                                               | instead                      |
|----------|-----------------------------------------------------|------------------------------|
| constant | an assert that a literal decides                    | say what is expected         |
| empty    | a loop, or all(), over what may be empty, in a test | `every(items)`, or assert    |
|          |                                                     | how many there are           |
| sleep    | time.sleep and asyncio.sleep, but for sleep(0)      | `until`; `let_run` for what  |
|          |                                                     | gives no sign                |
| poller   | another `until`; a loop that only lets time pass    | `until`, `wait_until`        |
| clock    | an upper bound of a time that passed; a deadline    | `until`; what would take     |
|          |                                                     | longer than a test may       |

The helpers are those of tests/waiting.py, which is not looked at. Lower bounds of time are fine: no
machine is too slow for them.

What counts as not empty: a literal with elements, CONSTANTS and classes (of enums), arguments of
parametrize, ranges of such numbers, copies and combinations of all these, names that are assigned
such a value, and everything that another assert of the test speaks of. Tests of Hypothesis are not
asked: some of their examples are not empty.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor

SLEEPS = {"time.sleep", "asyncio.sleep"}
PAUSES = {"let_run", "let_run_here"}
POLLERS = {"until", "wait_until", "eventually"}
CLOCKS = {"time.monotonic", "time.perf_counter", "time.time", "loop.time"}
DEADLINES = CLOCKS - {"time.time"}
FULL = {"every", "count"}
COPIES = {
    *("enumerate", "zip", "reversed", "sorted", "list", "tuple", "set", "map", "iter", "dict"),
    *("pairwise", "product", "permutations", "combinations", "chain", "gather"),
}
PARTS = {"items", "keys", "values"}
ADDS = {"append", "add", "extend", "update"}


class Finding(NamedTuple):
    line: int
    rule: str
    text: str


def findings(source: str) -> list[Finding]:
    tree = ast.parse(source)
    found: set[Finding] = set()
    for node in ast.walk(tree):
        rules = [*_constants(node), *_sleeps(node), *_pollers(node)]
        if isinstance(node, Function):
            rules += _clocks(node)
            if node.name.startswith("test_") and "given(" not in _decorators(node):
                rules += _empty(node)
        found.update(Finding(at.lineno, rule, _text(at)) for rule, at in rules)
    return sorted(found)


Found = Iterator[tuple[str, ast.stmt | ast.expr]]


def _text(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0][:80]


def _called(node: ast.AST) -> str:
    """`time.sleep` of a call of it, whatever it is awaited or imported by."""
    node = node.value if isinstance(node, ast.Await) else node
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


# -- constant, sleep, poller -----------------------------------------------------------------------


def _constants(node: ast.AST) -> Found:
    if isinstance(node, ast.Assert) and any(map(_is_constant, _operands(node.test))):
        yield "constant", node


def _operands(test: ast.expr) -> Iterator[ast.expr]:
    """What decides it: of `a and (b or c)` each of the three."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _operands(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _operands(test.operand)
    else:
        yield test


def _is_constant(node: ast.expr) -> bool:
    return not any(isinstance(one, ast.Name | ast.Call | ast.Attribute) for one in ast.walk(node))


def _sleeps(node: ast.AST) -> Found:
    if _called(node) in SLEEPS and isinstance(node, ast.Call):
        seconds = [ast.unparse(one) for one in node.args]
        if seconds != ["0"]:
            yield "sleep", node


def _pollers(node: ast.AST) -> Found:
    if isinstance(node, Function) and node.name in POLLERS:
        yield "poller", node
    if isinstance(node, ast.While | Loop):
        rest = [one for one in node.body if not _is_pause(one) and not _is_way_out(one)]
        if not rest and any(map(_is_pause, node.body)):
            yield "poller", node


def _is_pause(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and _called(node.value) in PAUSES


def _is_way_out(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.body[-1], ast.Break | ast.Return)


# -- clock -----------------------------------------------------------------------------------------


def _clocks(function: Function) -> Found:
    took = {
        name
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and _is_elapsed(node.value, frozenset())
        for target in node.targets
        for name in _names(target)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for i, op in enumerate(node.ops):
                small, large = sides[i], sides[i + 1]
                if isinstance(op, ast.Gt | ast.GtE):
                    small, large = large, small
                is_bound = isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
                if is_bound and (_is_elapsed(small, took) or _called(small) in DEADLINES):
                    yield "clock", node


def _is_elapsed(node: ast.expr, took: set[str] | frozenset[str]) -> bool:
    """Whether it is a time that passed: a difference of clocks, or a name for one."""
    if isinstance(node, ast.Name):
        return node.id in took
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        clocks = any(_called(one) in CLOCKS for one in ast.walk(node.left))
        return clocks and not _is_constant(node.right)
    return False


# -- empty -----------------------------------------------------------------------------------------


def _empty(test: Function) -> Found:
    known = _parametrized(test)
    for target, value in _assigned(test):
        if _is_filled(value, known):
            known |= _names(target)
    asserts = [node for node in ast.walk(test) if isinstance(node, ast.Assert)]
    for node in ast.walk(test):
        if isinstance(node, Loop):
            inside = [one for one in ast.walk(node) if isinstance(one, ast.Assert)]
            others = set().union(*(_names(one.test) for one in asserts if one not in inside))
            counted = _names(node.iter) | _changed(node)
            if inside and not _is_filled(node.iter, known) and not counted & others:
                yield "empty", node
        elif isinstance(node, ast.Assert) and _called(node.test) == "all":
            assert isinstance(node.test, ast.Call)
            others = set().union(*(_names(one.test) for one in asserts if one is not node))
            items = node.test.args[0]
            first = items.generators[0].iter if isinstance(items, ast.GeneratorExp) else items
            if not _is_filled(items, known) and not _names(first) & others:
                yield "empty", node


def _assigned(test: Function) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets and values, one by one: `a, b = 1, 2` are two."""
    for node in ast.walk(test):
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            yield node.target, node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    yield from zip(target.elts, node.value.elts, strict=False)
                elif isinstance(target, ast.Name):
                    yield target, node.value


def _is_filled(node: ast.AST, known: set[str]) -> bool:
    match node:
        case ast.Await() | ast.Starred() | ast.UnaryOp(operand=ast.Constant()):
            return _is_filled(next(ast.iter_child_nodes(node)), known)
        case ast.Constant():
            return bool(node.value)
        case ast.Dict():
            return bool(node.keys)
        case ast.List() | ast.Tuple() | ast.Set():
            return any(
                not isinstance(one, ast.Starred) or _is_filled(one, known) for one in node.elts
            )
        case ast.Name():
            return node.id in known or node.id.lstrip("_")[:1].isupper()
        case ast.Attribute():
            return node.attr.isupper()
        case ast.Subscript():  # a part of a constant is chosen by who knows the constant
            return isinstance(node.value, ast.Name) and node.value.id.isupper()
        case ast.BinOp():
            return _is_filled(node.left, known) or _is_filled(node.right, known)
        case ast.IfExp():
            return _is_filled(node.body, known) and _is_filled(node.orelse, known)
        case ast.Call(func=ast.Name(id="range")):
            return all(_is_number(one) or _is_filled(one, known) for one in node.args)
        case ast.Call(func=ast.Attribute(attr=attr, value=whole)) if attr in PARTS:
            return _is_filled(whole, known)
        case ast.Call():
            name = _called(node).rpartition(".")[2]
            is_copy = name in COPIES and any(_is_filled(one, known) for one in node.args)
            return name in FULL or is_copy
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return all(_is_filled(one.iter, known) and not one.ifs for one in node.generators)
    return False


def _is_number(node: ast.AST) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant)


def _parametrized(test: Function) -> set[str]:
    """Names of arguments that are given by the decorators."""
    found: set[str] = set()
    for call in test.decorator_list:
        if _called(call).endswith("parametrize"):
            assert isinstance(call, ast.Call)
            given = ast.literal_eval(call.args[0])
            found.update(given.split(",") if isinstance(given, str) else given)
    return {name.strip() for name in found}


def _decorators(function: Function) -> str:
    return " ".join(map(ast.unparse, function.decorator_list))


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _changed(loop: ast.AST) -> set[str]:
    """What its body counts or collects."""
    found: set[str] = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign):
            found.update(*(_names(target) for target in node.targets))
        elif isinstance(node, ast.AugAssign):
            found |= _names(node.target)
        elif isinstance(node, ast.Attribute) and node.attr in ADDS:
            found |= _names(node.value)
    return found
