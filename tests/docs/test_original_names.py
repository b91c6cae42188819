"""docs/explanation/original-names.md: the names of the original documents lead to code that is there."""

from __future__ import annotations

import re

import pytest

import toolcast
from project.source import ROOT
from toolcast.chat.chat_context import STATES
from toolcast.values.states import CALL, CYCLE, ELF, ORCHESTRATOR, REPL, SESSION, STREAM, TOOL_CALL, TURN

PAGE = (ROOT / "docs" / "explanation" / "original-names.md").read_text(encoding="utf-8")
LIBRARY = [re.findall(r"`(\w+)`", row.split("|")[2]) for row in PAGE.splitlines() if row.startswith("| `")]
CLASSES = sorted({name for row in LIBRARY for name in row if re.fullmatch(r"(?:[A-Z][a-z]+){2,}", name)})
NAMES = sorted({name for row in LIBRARY for name in row if "_" in name})
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
KNOWN_STATES = {
    *STATES,
    *(state for table in (CALL, CYCLE, ELF, ORCHESTRATOR, REPL, SESSION, STREAM, TOOL_CALL, TURN) for state in table),
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_of_the_page_exists(name: str) -> None:
    assert name in toolcast.__all__ or re.search(rf"^class {name}\b", SOURCE, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_page_is_a_state_or_defined(name: str) -> None:
    assert name in KNOWN_STATES or re.search(rf"\bdef {name}\b|\b{name}[:=]|[\"']{name}[\"']", SOURCE)
