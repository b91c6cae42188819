"""Previews as lines, without and with colours."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from toolcast.apps.approval_preview import CallPreview, CallSketch, CommandPreview, DiffPreview
from toolcast.apps.diff_rows import diff_texts
from toolcast.apps.repl.preview_text import FOLDED_LINES, call_label, is_foldable, plain_lines, preview_lines
from toolcast.apps.repl.rich_rows import rich_preview


def diff(old: str, new: str, note: str | None = None) -> DiffPreview:
    rows, added, removed, _ = diff_texts(old, new)
    return DiffPreview("a.txt", "edit" if old else "create", added, removed, rows, note)


CALL = CallPreview("look  a=1 b=2", {"a": 1, "b": 2}, "a: 1\nb: 2", False)
LONG = "".join(f"{n}\n" for n in range(FOLDED_LINES + 5))


@pytest.mark.parametrize(
    ("preview", "text"),
    [
        (
            diff("one\n" + "x\n" * 20 + "two\n", "1\n" + "x\n" * 20 + "2\n", "A note."),
            "edit a.txt +2 −2\n   1 - one\n   1 + 1\n   2   x\n   3   x\n   4   x\n   …   14 unchanged lines\n"
            "  19   x\n  20   x\n  21   x\n  22 - two\n  22 + 2\n  A note.",
        ),
        (diff("", "x\n"), "edit a.txt +1 −0 (new file)\n  1 + x"),
        (CommandPreview("ls\nrm x", "/tmp"), "edit in /tmp\n  $ ls\n  > rm x"),
        (CommandPreview("ls"), "edit\n  $ ls"),
        (CALL, "look  a=1 b=2"),
    ],
)
def test_a_preview(preview: CallSketch, text: str) -> None:
    assert plain_lines(preview_lines("edit", preview)) == text


def test_a_number_and_the_whole_arguments() -> None:
    assert plain_lines(preview_lines("look", CALL, number=2, whole=True)) == "2. look  a=1 b=2\n  a: 1\n  b: 2"


@pytest.mark.parametrize("preview", [diff("", LONG), CommandPreview(LONG.rstrip("\n"))])
def test_a_long_preview_is_folded(preview: CallSketch) -> None:
    assert is_foldable(preview)
    folded, whole = preview_lines("f", preview), preview_lines("f", preview, whole=True)
    assert len(folded) == FOLDED_LINES + 2
    assert folded[-1].text == "… 5 more lines"
    assert len(whole) == FOLDED_LINES + 6


def test_a_short_preview_is_not_foldable() -> None:
    assert not is_foldable(diff("a\n", "b\n"))
    assert not is_foldable(CommandPreview("ls"))
    assert not is_foldable(CallPreview("f  x", {"a": "x"}, "a: x", True))
    assert is_foldable(CALL)


@pytest.mark.parametrize(
    ("preview", "label"),
    [
        (diff("a\n", "b\n"), "f a.txt +1 −1"),
        (CommandPreview("\nls -l\nrm x"), "f  ls -l …"),
        (CommandPreview("x" * 200), f"f  {'x' * 100} …"),
        (CommandPreview("ls"), "f  ls"),
        (CALL, "look  a=1 b=2"),
    ],
)
def test_a_label_is_one_line(preview: CallSketch, label: str) -> None:
    assert call_label("f", preview) == label


@pytest.mark.parametrize("columns", [1, 7, 20, 40, 120])
def test_rows_fit_the_terminal_and_lose_nothing(columns: int) -> None:
    preview = diff("one 漢字漢字 two\n" * 2, "one 漢字漢字 three\n" + "\tword" * 9, "A note of several words.")
    lines = preview_lines("edit_file", preview)
    rows = list(rich_preview(lines, columns))
    gutters = max(len(line.gutter) for line in lines)
    assert all(cell_len(row.plain) <= max(columns, gutters + 2) for row in rows)
    shown = "".join("".join(row.plain.split()) for row in rows)
    assert shown == "".join(f"{line.gutter}{line.text}" for line in lines).replace(" ", "").replace("\t", "")


def test_changed_words_are_reversed() -> None:
    _, old, new = rich_preview(preview_lines("f", diff("the\tcat sat\n", "the\tdog sat\n")), 80)
    for row, word in ((old, "cat"), (new, "dog")):
        start = row.plain.index(word)
        assert [(span.start, span.end) for span in row.spans if span.style == "reverse"] == [(start, start + 3)]
    assert {str(span.style) for span in old.spans} >= {"red", "reverse"}
    assert {str(span.style) for span in new.spans} >= {"green", "reverse"}


def test_a_long_line_is_continued_below_its_text() -> None:
    rows = [row.plain.rstrip() for row in rich_preview(preview_lines("f", diff("", "0123456789" * 2 + "\n")), 16)]
    assert rows == ["f a.txt +1 −0", "(new file)", "  1 + 0123456789", "      0123456789"]
