"""Lists to choose from, on a screen that only has lines."""

from __future__ import annotations

from collections.abc import Sequence

from support.scripted_screen import ScriptedScreen
from toolcast.apps.repl.picker import ListRow, PickedRow, pick_from_lines, rows_for

ROWS = [ListRow("a", "Apple pie", "2 messages"), ListRow("b", "Bread"), ListRow("c", "Crumble 2")]


def find(query: str) -> Sequence[ListRow]:
    return [row for row in ROWS if query.lower() in row.text.lower()]


def test_a_number_selects_a_row_and_other_text_searches() -> None:
    assert rows_for("2", find) == (ROWS, 1)
    assert rows_for(" ", find) == (ROWS, 0)
    assert rows_for("9", find) == ([], 0)
    assert rows_for("cr", find) == ([ROWS[2]], 0)
    assert rows_for("²", find) == ([], 0)


def test_a_row_is_chosen_by_its_number() -> None:
    screen = ScriptedScreen("2")
    assert pick_from_lines(screen, "Sessions", find, {}) == PickedRow("b")
    assert screen.notes == "Sessions\n1  Apple pie  (2 messages)\n2  Bread\n3  Crumble 2"
    assert screen.prompts == [("number, or words to search: ", "")]


def test_words_search_and_an_action_comes_before_the_number() -> None:
    screen = ScriptedScreen("crumble", "delete 7", "  ", "never read")
    assert pick_from_lines(screen, "Sessions", find, {"c-x": "delete"}) is None
    assert "nothing found" in screen.notes
    assert screen.prompts[0][0] == "number, delete NUMBER, or words to search: "
    assert pick_from_lines(ScriptedScreen("Delete 3"), "", find, {"c-x": "delete"}) == PickedRow("c", "delete")


def test_a_long_list_is_cut_and_without_a_person_it_is_only_shown() -> None:
    screen = ScriptedScreen("1", interactive=False)
    rows = [ListRow(str(number), f"row {number}") for number in range(25)]
    assert pick_from_lines(screen, "Rows", lambda query: rows, {}) is None
    assert screen.notes.splitlines()[1] == " 1  row 0"
    assert screen.notes.splitlines()[-1] == "... and 5 more"
