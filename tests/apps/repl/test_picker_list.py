"""The list on a terminal, by its keys, and its rows at several widths."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.utils import get_cwidth

from toolcast.apps.repl.picker import ListRow, PickedRow
from toolcast.apps.repl.picker_list import PickerList

ROWS = [ListRow(f"v{number}", f"row {number}", f"{number} messages") for number in range(30)]
UP, DOWN, PAGE_DOWN = "\x1b[A", "\x1b[B", "\x1b[6~"
ACTIONS = {"c-r": "rename", "c-x": "delete"}


class Sized(DummyOutput):
    """An output of a given size."""

    def __init__(self, columns: int, rows: int = 24) -> None:
        self.size = Size(rows=rows, columns=columns)

    def get_size(self) -> Size:
        return self.size


def find(query: str) -> Sequence[ListRow]:
    return [row for row in ROWS if query in row.text]


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ("\r", PickedRow("v0")),
        (f"{DOWN}{DOWN}{UP}\r", PickedRow("v1")),
        (f"{UP}\r", PickedRow("v0")),
        (f"{PAGE_DOWN * 5}\r", PickedRow("v29")),
        ("row 12\r", PickedRow("v12")),
        ("7\r", PickedRow("v6")),
        (f"row 2{DOWN}\r", PickedRow("v20")),
        (f"{DOWN}\x12", PickedRow("v1", "rename")),
        ("\x18", PickedRow("v0", "delete")),
        (f"nothing{DOWN}\r\x7f\x7f\x7f\x7f\x7f\x7f\x7f\r", PickedRow("v0")),
        ("\x03", None),
        ("\x04", None),
    ],
)
def test_the_keys(keys: str, chosen: PickedRow | None) -> None:
    with create_pipe_input() as typed:
        typed.send_text(keys)
        assert PickerList("Rows", find, ACTIONS, input=typed, output=Sized(80)).run() == chosen


@pytest.mark.parametrize(
    ("last", "chosen"),
    [
        (PickedRow("v5", "rename", "", 5), "v5"),
        (PickedRow("v21", "rename", "row 2", 2), "v21"),
        (PickedRow("gone", "delete", "", 5), "v5"),  # the row in its place
        (PickedRow("gone", "delete", "", 30), "v29"),
        (PickedRow("gone", "delete", "gone", 0), "v0"),  # the search finds nothing any more
    ],
)
def test_after_an_action_the_list_begins_where_it_was(last: PickedRow, chosen: str) -> None:
    with create_pipe_input() as typed:
        typed.send_text("\r")
        assert PickerList("Rows", find, ACTIONS, last, input=typed, output=Sized(80)).run() == PickedRow(chosen)


def test_an_action_has_the_search_and_the_place() -> None:
    with create_pipe_input() as typed:
        typed.send_text(f"row 2{DOWN}\x12")
        picked = PickerList("Rows", find, ACTIONS, input=typed, output=Sized(80)).run()
    assert picked is not None
    assert (picked.value, picked.query, picked.at) == ("v20", "row 2", 1)


def test_a_narrow_row_has_the_end_of_its_detail() -> None:
    rows = [ListRow("a", "EDIT please", "5 messages, project, 3 h ago"), ListRow("b", "x" * 99, "5 messages, 3 h ago")]
    assert lines_of(40, rows) == [
        "› 1 EDIT please        project, 3 h ago",
        f"  2 {'x' * 25}…  3 h ago",
    ]


def lines_of(columns: int, rows: Sequence[ListRow] = ROWS, height: int = 24) -> list[str]:
    with create_pipe_input() as typed:
        shown = PickerList("Rows", lambda query: rows, {}, input=typed, output=Sized(columns, height))
        return "".join(text for _, text, *_ in shown.lines()).split("\n")


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_row_fits_with_its_detail(columns: int) -> None:
    rows = [ListRow("a", "x" * 200, "5 messages"), ListRow("b", "日本語" * 40, "2 messages"), ListRow("c", "short")]
    lines = lines_of(columns, rows)
    assert all(get_cwidth(line) <= columns - 1 for line in lines)
    assert "5 messages" in lines[0]
    assert "…" in lines[0]
    assert "…" in lines[1]
    assert lines[0].startswith("› 1 xxx")


def test_the_height_is_that_of_the_terminal() -> None:
    assert len(lines_of(80)) == 10
    assert len(lines_of(80, height=9)) == 3
    assert lines_of(80, []) == ["  nothing found"]
    assert "\x1b" not in "".join(lines_of(80, [ListRow("a", "\x1b[2J", "\x1b[2J")]))
