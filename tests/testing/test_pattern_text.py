"""Texts for regular expressions."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given, strategies as st

from toolcast.testing.string_values import text_matching


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[A-Z]{3}-\d{2}$",
        r"^\w+@\w+\.(com|org)$",
        r"a?b*c+",
        r"^[^a-z\s]{4}$",
        r"^\D\S\W$",
        r"^(ab|cd)\1$",
        r"^(?P<one>.)(?P=one)$",
        r"^(?>a+)b?+c*?$",
        r"^(?=a)[a-c]$",
        r"^[^\d]\t.$",
        r"^[一-鿿]+$",
        r"^(a*)*$",
        "",
    ],
)
def test_a_text_matches(pattern: str) -> None:
    for seed in range(20):
        text = text_matching(pattern, Random(seed), 0, None)
        assert text is not None and re.search(pattern, text)


@given(st.integers(0, 30), st.integers(0, 5), st.integers(0, 1000))
def test_lengths(shortest: int, more: int, seed: int) -> None:
    text = text_matching("^[a-z]*( [a-z]+)?$", Random(seed), shortest, shortest + more)
    assert text is not None and shortest <= len(text) <= shortest + more


@pytest.mark.parametrize(("shortest", "longest"), [(200, 400), (200, 200), (300, None)])
def test_a_long_text(shortest: int, longest: int | None) -> None:
    text = text_matching(r"^x*(?:\w+ ?)+@example[.]com$", Random(0), shortest, longest)
    assert text is not None and shortest <= len(text) <= (longest or len(text))


@pytest.mark.parametrize("pattern", [r"^\p{Lu}$", "^a$(?<=b)", "a{3}"])
def test_no_text(pattern: str) -> None:
    """A pattern in another syntax, one that nothing matches, and one whose texts are too long."""
    assert text_matching(pattern, Random(0), 0, 2) is None
