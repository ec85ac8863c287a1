"""Tests that cannot fail, and tests that fail on a slow machine: none of them here.

The rules are in tests/repo/hygiene.py, with what to write instead.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repo.hygiene import findings
from tests.waiting import every

TESTS = Path(__file__).resolve().parents[1]
VIRTUAL = TESTS / "simulation"
"""Where time is the simulation's own: a sleep there takes no time."""


def test_all_tests_can_fail_and_none_depends_on_speed() -> None:
    found = [
        f"{path.relative_to(TESTS.parent)}:{one.line}: {one.rule}: {one.text}"
        for path in every(TESTS.rglob("*.py"))
        if path != TESTS / "waiting.py"
        for one in findings(path.read_text())
        if one.rule != "sleep" or path.parent != VIRTUAL
    ]
    assert found == [], "see tests/repo/hygiene.py"


def rules(*lines: str) -> list[str]:
    """Of a test with these lines."""
    body = "".join(f"    {line}\n" for line in lines)
    return [one.rule for one in findings(f"def test_it(items, parts):\n{body}")]


@pytest.mark.parametrize(
    "line",
    [
        "assert True",
        "assert [1, 2]",
        "assert read() == [2] or [2, 3]",
        "assert not (read() and 0)",
        "assert 1 < 2",
    ],
)
def test_what_a_literal_decides(line: str) -> None:
    assert rules(line) == ["constant"]


@pytest.mark.parametrize("line", ["assert items", "assert read() in ([2], [2, 3])", "assert X"])
def test_what_is_decided_by_what_is_tested(line: str) -> None:
    assert rules(line) == []


LOOPS = [
    ["for item in items:", "    assert item"],
    ["async for item in read():", "    assert item"],
    ["for item in items[1:]:", "    assert item"],
    ["for at in range(len(items)):", "    assert at"],
    ["for item in [one for one in A if one.fits]:", "    assert item"],
    ["for item in enumerate(items):", "    assert item"],
    ["made, other = read(), [1]", "for item in made:", "    assert item"],
    ["assert all(item for item in items)"],
    ["assert all(map(str, items))"],
    ["assert parts", "for item in items:", "    assert item"],
]


@pytest.mark.parametrize("lines", LOOPS, ids=lambda lines: lines[0])
def test_what_passes_without_a_look(lines: list[str]) -> None:
    assert rules(*lines) == ["empty"]


LOOKS = [
    ["for item in every(items):", "    assert item"],
    ["for item in (1, 2):", "    assert item"],
    ["for item in ITEMS:", "    assert item"],
    ["for kind in Kind:", "    assert kind"],
    ["for at in range(-1, 5):", "    assert at"],
    ["for item, at in zip(items, [1, 2], strict=True):", "    assert item"],
    ["for name, value in {'a': 1}.items():", "    assert value"],
    ["assert len(items) == 3", "for item in items:", "    assert item"],
    ["seen = 0", "for item in items:", "    seen += 1", "    assert item", "assert seen == 2"],
    [
        "found = []",
        "for item in items:",
        "    found.append(item)",
        "    assert item",
        "assert found",
    ],
    ["made = [1 for _ in range(3)]", "for item in made:", "    assert item"],
    ["made: list[int] = [1]", "for item in made:", "    assert item"],
    ["one, made = read(), [1]", "for item in made:", "    assert item"],
    ["for item in items:", "    print(item)"],
    ["assert all(item for item in every(items))"],
    ["assert len(items) == 3", "assert all(item for item in items)"],
]


@pytest.mark.parametrize("lines", LOOKS, ids=lambda lines: lines[0])
def test_what_looks_at_something(lines: list[str]) -> None:
    assert rules(*lines) == []


def test_arguments_are_filled_by_parametrize_and_examples_by_hypothesis() -> None:
    loop = "(items):\n    for item in items:\n        assert item\n"
    assert [one.rule for one in findings(f"def test_it{loop}")] == ["empty"]
    for decorator in ("@pytest.mark.parametrize('items', ALL)", "@given(st.lists(st.text()))"):
        assert findings(f"{decorator}\ndef test_it{loop}") == []
    assert findings(f"def check{loop}") == [], "a helper may find nothing to check"


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        (["time.sleep(1)"], "sleep"),
        (["await asyncio.sleep(0.01)"], "sleep"),
        (["await asyncio.sleep(pause_s)"], "sleep"),
        (["while not done():", "    let_run_here(0.1)"], "poller"),
        (
            ["for _ in range(9):", "    if done():", "        break", "    await let_run()"],
            "poller",
        ),
        (["async def until(met): ..."], "poller"),
        (["assert time.monotonic() - began < 5"], "clock"),
        (["assert 5 > time.monotonic() - began"], "clock"),
        (["assert 1 < time.perf_counter() - began < 5"], "clock"),
        (["took = time.monotonic() - began", "assert took <= 5"], "clock"),
        (["while time.monotonic() < deadline:", "    poll()"], "clock"),
        (["while not done() and loop.time() < deadline:", "    poll()"], "clock"),
    ],
    ids=str,
)
def test_what_depends_on_speed(lines: list[str], rule: str) -> None:
    assert rules(*lines) == [rule]


@pytest.mark.parametrize(
    "lines",
    [
        ["await asyncio.sleep(0)"],
        ["await let_run()", "assert not task.done()"],
        ["while not task.done():", "    await topic.produce()", "    await let_run()"],
        ["assert time.monotonic() - began > 0.3"],
        ["took = time.monotonic() - began", "assert took >= 0.3"],
        ["before = time.time() * 1000 - 1", "assert before <= now()"],
    ],
    ids=lambda lines: lines[0],
)
def test_what_does_not(lines: list[str]) -> None:
    assert rules(*lines) == []
