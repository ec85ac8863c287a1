"""Topic patterns against Python's own, and what cannot be allowed to run for years."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stratamq.broker.kafka.groups.consumer.regex import (
    STATES_MAX,
    STEPS_MAX,
    BadPattern,
    compile_pattern,
)

atoms = st.sampled_from(
    ["a", "b", ".", r"\.", "[ab]", "[^a]", "[a-c_]", r"\d", r"\w", r"[\d-]", r"\W", "-", "[]a]"]
)
counted = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?"])
patterns = st.recursive(
    st.lists(st.tuples(atoms, counted).map("".join), min_size=1, max_size=3).map("".join),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, counted).map(lambda two: f"({two[0]}){two[1]}"),
        inner.map(lambda one: f"^{one}$"),
    ),
    max_leaves=5,
)


@given(patterns, st.text("ab.c_1-\n", max_size=6))
@example("(a|)*b", "aab")
@example("a{,2}", "a{,2}")
@example("(?i)[^A]B", "cb")
@example("(?i)[^A]B", "ab")
@example("(?i)OrDers", "oRdErs")
def test_it_matches_what_python_matches(pattern: str, name: str) -> None:
    meant = re.sub(r"\$", r"\\Z", pattern)  # `$` here is the very end, as in RE2
    if "{," in pattern:
        meant = meant.replace("{", r"\{")  # Python counts {,2}; RE2 does not
    expected = re.fullmatch(meant, name, re.ASCII) is not None
    assert compile_pattern(pattern).matches(name) is expected


@given(st.text("ab.*+?{}()[]|^$\\-,1dDi:", max_size=12), st.text("ab1", max_size=4))
def test_any_text_is_a_pattern_or_refused(pattern: str, name: str) -> None:
    try:
        compiled = compile_pattern(pattern)
    except BadPattern:
        return
    compiled.matches(name)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a)",
        "[a",
        "*",
        "a**b(",
        "\\",
        "(?=a)",
        "(?P<n>a)",
        "[b-a]",
        "a{2,1}",
        r"\p",
        r"\1",
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["a" * 1001, "(a{1000}){1000}", "a{1001}", "(" * 60 + ")" * 60, "((a{50}){50}){50}"]
)
def test_what_is_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a*)*(a|a)*(a?){20}b", "(.?){400}x", "(.*a.*|.*b.*){20}x", ".*a.{200}x|.*b.{150}x"]
)
def test_no_pattern_makes_it_run_for_years(pattern: str) -> None:
    """Its work is at most its steps for each character, and what it finds out it remembers."""
    compiled = compile_pattern(pattern)
    names = ["a" * 249, "ab" * 124, "a" * 249]
    assert not any(compiled.matches(name) for name in names[:2])
    done = compiled.work
    assert done < 2 * 249 * 2 * STEPS_MAX
    assert not compiled.matches(names[2])
    assert compiled.work - done < 50


def test_what_is_remembered_is_bounded() -> None:
    """Each name takes the pattern to states that no other did."""
    compiled = compile_pattern("(a|b)*a(a|b){12}")
    for number in range(1 << 12):
        name = f"{number:012b}".replace("0", "a").replace("1", "b")
        assert compiled.matches("a" + name)
        assert len(compiled._states) <= STATES_MAX
