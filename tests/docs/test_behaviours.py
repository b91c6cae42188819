"""Tests of docs/reference/behaviours.md: it lists the behaviours that tests cite, and no other."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from io import StringIO

import pytest

from docs.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "behaviours.md"
IN_NAME = re.compile(r"(?<=_)([A-Za-z]\d{1,2})(?=_)")
IN_TEXT = re.compile(r"\b([CERX])(\d{1,2})(?:(?: to |-)\1(\d{1,2}))?\b")


def cited(source: str) -> Iterator[str]:
    """Yield the numbers that the names, docstrings and comments of a test file cite."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield from map(str.upper, IN_NAME.findall(re.match(r"test(?:_[A-Za-z]\d{1,2})*_", node.name)[0]))
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from in_text(ast.get_docstring(node) or "")
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from in_text(token.string)


def in_text(text: str) -> Iterator[str]:
    """Yield the numbers in a text; of a range, all of it."""
    for letter, first, last in IN_TEXT.findall(text):
        yield from (f"{letter}{number}" for number in range(int(first), int(last or first) + 1))


def test_the_page_lists_what_tests_cite() -> None:
    listed = re.findall(r"^\| ([A-Z]\d+) \|", PAGE.read_text(encoding="utf-8"), re.M)
    found = {key for path in (ROOT / "tests").rglob("*.py") for key in cited(path.read_text(encoding="utf-8"))}
    assert sorted(listed) == sorted(found)


@pytest.mark.parametrize(
    ("source", "keys"),
    [
        ("def test_E9_cancel(): ...", ["E9"]),
        ("def test_c8_c9_a_stage(): ...", ["C8", "C9"]),
        ("def test_a_c5_inside(): ...", []),
        ('def test_a():\n    """R7: and X10."""', ["R7", "X10"]),
        ('"""E18 to E20; X2-X4."""', ["E18", "E19", "E20", "X2", "X3", "X4"]),
        ("x = 'E1'  # E2", ["E2"]),
    ],
)
def test_what_counts_as_a_citation(source: str, keys: list[str]) -> None:
    assert list(cited(source)) == keys
