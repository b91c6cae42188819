"""The changes of `mutate`: they are those that were meant, and each is another program."""

from __future__ import annotations

import ast

import pytest

from mutate import ROOT, TARGETS, changed, changes

SOURCE = """\
LIMIT = 3
def read(data, end):
    if data and end > 2:
        return data[0] + 1
    return not end == None
"""


@pytest.mark.gate("G12")
def test_each_change_is_made_once() -> None:
    known = list(changes(ast.parse(SOURCE)))
    made = [changed(SOURCE, number) for number in range(len(known))]
    assert len(set(made)) == len(known) == 8
    assert sorted((change.line, change.what) for change in known) == [
        (3, "3"), (3, "GtE"), (3, "Or"), (3, "not"), (4, "1"), (4, "2"), (4, "Sub"), (5, "NotEq")
    ]  # fmt: skip
    assert all(source.startswith("LIMIT = 3") for source in made)


@pytest.mark.gate("G12")
@pytest.mark.parametrize("module", TARGETS)
def test_every_module_can_be_changed(module: str) -> None:
    source = (ROOT / "src" / "toolcast" / module).read_text(encoding="utf-8")
    known = list(changes(ast.parse(source)))
    assert len(known) > 5
    assert all((ROOT / tests).exists() for tests in TARGETS[module])
    ast.parse(changed(source, len(known) // 2))
