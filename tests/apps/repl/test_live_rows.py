"""The rows at the end of a terminal that may still change, against an emulated terminal."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import given, strategies as st

from support.terminal_emulator import Emulated
from toolcast.apps.repl.live_rows import LiveRow, LiveRows

COLUMNS, HEIGHT = 12, 6
Step: TypeAlias = tuple[list[LiveRow], list[LiveRow]]


def row(text: str) -> LiveRow:
    return LiveRow(text, len(text))


def rows(*texts: str) -> list[LiveRow]:
    return [row(text) for text in texts]


def test_text_that_grows_costs_what_it_grows_by() -> None:
    live = LiveRows()
    assert live.draw([], rows("one", "two"), 80) == "one\ntwo"
    assert live.draw([], rows("one", "two and"), 80) == " and"
    assert live.draw([], rows("one", "two and", "three"), 80) == "\nthree"
    assert live.draw([], rows("one", "two and", "three"), 80) == ""
    assert live.draw(rows("one", "two and"), rows("three, and more"), 80) == ", and more"
    assert live.draw(rows("three, and more"), [], 80) == "\n"
    assert live.draw([], [], 80) == ""
    assert live.draw(rows("four"), rows("five"), 80) == "four\nfive"


def test_only_what_differs_is_written_again() -> None:
    live = LiveRows()
    live.draw([], rows("one", "two", "three"), 80)
    written = live.draw([], rows("one", "zwei", "three"), 80)
    assert written == "\x1b[1A\rzwei\n\x1b[6G"
    written = live.draw([], rows("one", "zw", "three"), 80)
    assert written == "\x1b[1A\rzw\x1b[K\n\x1b[6G"


def test_text_grows_above_a_row_that_stays() -> None:
    """As an answer does above the row with the activity."""
    live = LiveRows()
    live.draw([], rows("An answer", "", "* working"), 80)
    assert live.draw([], rows("An answer that", "", "* working"), 80) == "\x1b[2A\r\x1b[10G that\n\n\x1b[10G"


def test_several_rows_that_are_replaced_are_shown_at_once() -> None:
    live = LiveRows()
    live.draw([], rows("one", "two", "three"), 80)
    assert live.draw([], rows("1"), 80) == "\x1b[?2026h\x1b[1A\r\x1b[J\x1b[1A\r1\x1b[K\x1b[?2026l"


def test_a_row_of_unsure_width_is_not_wrapped_until_it_is_finished() -> None:
    family = LiveRow("\U0001f468\u200d\U0001f469\u200d\U0001f467 family", 9)
    live = LiveRows()
    assert live.draw([], [family], 80) == f"\x1b[?7l{family.text}\x1b[?7h"
    assert live.draw([family], [], 80) == f"\x1b[?2026h\r\x1b[J{family.text}\x1b[?2026l\n"
    live.draw([], [row("a"), family], 80)
    assert live.draw([], [row("b"), family], 80) == (f"\x1b[?2026h\x1b[1A\rb\n\x1b[?7l{family.text}\x1b[?7h\x1b[?2026l")
    changed = LiveRow(f"{family.text}.", 10)
    assert live.draw([], [row("b"), changed], 80) == f"\r\x1b[K\x1b[?7l{changed.text}\x1b[?7h"


def test_a_long_row_is_cut_while_it_may_change_and_then_wrapped() -> None:
    terminal, live = Emulated(COLUMNS, HEIGHT), LiveRows()
    long = row("0123456789abcdef")
    terminal.write(live.draw([], [row("code"), long], COLUMNS))
    assert terminal.lines == ["code", "0123456789af"]  # the last column shows what came last
    terminal.write(live.draw([row("code"), long], rows("next"), COLUMNS))
    assert terminal.lines == ["code", "0123456789ab", "cdef", "next"]


@pytest.mark.parametrize("columns", [10, 4])
def test_after_a_resize_all_is_drawn_anew(columns: int) -> None:
    """As a terminal does that wraps what no longer fits: as many rows up as it takes now."""
    live = LiveRows()
    live.draw(rows("kept"), rows("one", "twelve", "1234567890"), 12)
    up = {10: 2, 4: 1 + 2 + 3 - 1}[columns]
    written = live.draw([], rows("one"), columns)
    assert written == f"\x1b[?2026h\x1b[{up}A\r\x1b[Jone\x1b[?2026l"


TEXT = st.text(alphabet="ab ", max_size=COLUMNS).map(lambda text: f"{text}." if len(text) < COLUMNS else text)
ROW = st.one_of(
    TEXT.map(row),
    st.sampled_from(
        [
            row(""),
            row("x" * (COLUMNS + 5)),
            LiveRow("\x1b[1mbold\x1b[0m", 4),
            LiveRow("漢字", 4),
            LiveRow("e\u200d.", 2),
        ]
    ),
)
STEP = st.tuples(st.lists(ROW, max_size=9), st.lists(ROW, max_size=HEIGHT - 1))


def at_once(finished: list[LiveRow], tail: list[LiveRow]) -> Emulated:
    """The terminal to which all was written once; what may still change is cut off at the margin."""
    terminal = Emulated(COLUMNS, HEIGHT)
    terminal.write("".join(f"{each.text}\n" for each in finished))
    terminal.write("\n".join(f"\x1b[?7l{each.text}\x1b[?7h" for each in tail))
    return terminal


@given(st.lists(STEP, max_size=8), st.booleans())
def test_finished_rows_stand_there_once_and_the_tail_below_them(steps: list[Step], grows: bool) -> None:
    terminal, live = Emulated(COLUMNS, HEIGHT), LiveRows()
    finished: list[LiveRow] = []
    tail: list[LiveRow] = []
    for more, new in steps:
        if grows:  # what was open is finished as it stood there
            more = [*tail[: len(more)], *more]
        finished, tail = finished + more, new
        terminal.write(live.draw(more, tail, COLUMNS))
        wanted = at_once(finished, tail)
        assert terminal.lines == wanted.lines
        assert terminal.cursor == wanted.cursor
