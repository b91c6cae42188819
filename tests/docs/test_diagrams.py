"""The diagrams on the pages are those of the tables in the code."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest

from docs.pages import ROOT


@pytest.fixture(scope="module")
def diagrams() -> ModuleType:
    """The script that draws them."""
    spec = importlib.util.spec_from_file_location("diagrams", ROOT / "docs" / "diagrams.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_up_to_date(diagrams: ModuleType) -> None:
    for path, tables in diagrams.PAGES.items():
        page = path.read_text(encoding="utf-8")
        assert page == diagrams.drawn(page, tables), "run `python docs/diagrams.py`"


def test_every_state_of_a_table_is_drawn(diagrams: ModuleType) -> None:
    for path, tables in diagrams.PAGES.items():
        page = path.read_text(encoding="utf-8")
        states = {state for table in tables.values() for state in table}
        assert [state for state in sorted(states) if not re.search(rf"--> {state}(:|$)", page, re.M)] == []


@pytest.mark.parametrize("damage", ["<!-- begin CALL -->", "<!-- end STREAM -->"])
def test_a_lost_marker_is_reported(diagrams: ModuleType, damage: str) -> None:
    path, tables = next(iter(diagrams.PAGES.items()))
    with pytest.raises(ValueError, match="markers"):
        diagrams.drawn(path.read_text(encoding="utf-8").replace(damage, ""), tables)


def test_an_outline_has_one_arrow_for_all_events_between_two_states(diagrams: ModuleType) -> None:
    table = {
        "idle": {"LOAD": "ready"},
        "ready": {
            "LOAD": "idle",
            "ASK [empty]": "ready",
            "ASK [full]": "busy",
            "ASK": "busy",
            "RETRY [failed]": "busy",
        },
        "busy": {"LOAD": "idle", "END [last]": "idle", "END": "ready"},
    }
    arrows = ["[*] --> idle", "idle --> ready: LOAD", "ready --> busy: ASK<br>RETRY", "busy --> idle: END"]
    expected = ["stateDiagram-v2", *arrows, "busy --> ready: END"]
    assert [line.strip() for line in diagrams.outline(table).splitlines()] == expected


def test_the_rows_have_every_transition(diagrams: ModuleType) -> None:
    _, _, *rows = diagrams.rows({"ready": {"ASK [full]": "busy", "[waiting]": "busy", "END": "idle"}}).splitlines()
    assert rows == [
        "| `ready` | `ASK` | `full` | `busy` |",
        "| `ready` |  | `waiting` | `busy` |",
        "| `ready` | `END` |  | `idle` |",
    ]
