"""Diffs as rows: they rebuild the new text from the old one, their ranges are in bounds, and their cost is bounded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, strategies as st

from toolcast.apps import diff_rows
from toolcast.apps.diff_rows import LONGEST_TEXT, DiffRow, TextDiff, diff_texts
from toolcast.text.terminal_text import exposed

LINES = st.lists(st.sampled_from(["", "a", "b", "  a b", "the cat sat", "the dog sat", "}", "x\u200by", "\ud83d"]))
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"])) | st.text(
    st.characters(exclude_characters="\r"), max_size=40
)


def shown(text: str) -> list[str]:
    """The lines of a text as rows show them."""
    lines = text.split("\n")
    return [exposed(line) for line in (lines if lines[-1] else lines[:-1])]


def side(rows: Sequence[DiffRow], *kinds: str) -> list[str]:
    return [row.text for row in rows if row.kind in kinds]


def texts(diff: TextDiff) -> list[tuple[str, str]]:
    signs = {"same": " ", "add": "+", "remove": "-", "gap": "…"}
    return [(signs[row.kind], row.text) for row in diff.rows]


@given(TEXTS, TEXTS)
@example("a", "a\n")
@example("", "")
def test_the_rows_have_both_texts(old: str, new: str) -> None:
    rows, added, removed, omitted = diff_texts(old, new, context=None)
    assert side(rows, "same", "remove") == shown(old)
    assert side(rows, "same", "add") == shown(new)
    assert (added, removed, omitted) == (len(side(rows, "add")), len(side(rows, "remove")), 0)
    assert [row.old for row in rows if row.old] == list(range(1, len(shown(old)) + 1))
    assert [row.new for row in rows if row.new] == list(range(1, len(shown(new)) + 1))
    assert (old == new) == (not added and not removed)


@given(TEXTS, TEXTS, st.integers(0, 3))
def test_every_row_has_the_line_of_its_number(old: str, new: str, context: int) -> None:
    before, after = shown(old), shown(new)
    diff = diff_texts(old, new, context=context)
    for row in diff.rows:
        assert row.old is None or row.text == before[row.old - 1]
        assert row.new is None or row.text == after[row.new - 1]
        assert all(0 <= start < end <= len(row.text) for start, end in row.words)
        assert [*row.words] == sorted(row.words)
    assert diff[1:] == diff_texts(old, new, context=None)[1:]
    everything = diff_texts(old, new, context=None)
    assert side(diff.rows, "add", "remove") == side(everything.rows, "add", "remove")


@given(st.lists(st.sampled_from(["one", "two", " ", "\u200b", "(", "é", "🎉", "\t"])), st.data())
def test_what_is_outside_the_ranges_is_in_both_lines(words: list[str], data: st.DataObject) -> None:
    other = data.draw(st.permutations(words)) + data.draw(st.lists(st.sampled_from(["new", "🌊"]), max_size=2))
    rows = diff_texts("".join(words), "".join(other)).rows
    if len(rows) == 2 and any(row.words for row in rows):
        assert "".join(outside(rows[0]).split()) == "".join(outside(rows[1]).split())


def outside(row: DiffRow) -> str:
    text, at = "", 0
    for start, end in row.words:
        text, at = text + row.text[at:start], end
    return text + row.text[at:]


def test_every_cut_of_a_text() -> None:
    text = "def f(x):\n    return x\n\n\ndef g(y):\n    return y + 1\n"
    for cut in range(len(text) + 1):
        for old, new in ((text, text[:cut]), (text[:cut], text), (text, text[cut:])):
            rows = diff_texts(old, new, context=None).rows
            assert side(rows, "same", "remove") == shown(old)
            assert side(rows, "same", "add") == shown(new)


def test_changed_words() -> None:
    old, new = diff_texts("the cat sat here\n", "the dog sat there\n").rows
    assert [old.text[start:end] for start, end in old.words] == ["cat", "here"]
    assert [new.text[start:end] for start, end in new.words] == ["dog", "there"]


def test_neighbouring_words_are_one_range() -> None:
    old, new = diff_texts("keep all of this: one two\n", "keep all of this: 1 2\n").rows
    assert [old.text[start:end] for start, end in old.words] == ["one two"]
    assert [new.text[start:end] for start, end in new.words] == ["1 2"]


def test_lines_with_little_in_common_have_no_ranges() -> None:
    assert [row.words for row in diff_texts("import os\n", "x = 5\n").rows] == [(), ()]


def test_a_line_finds_its_new_version_among_others() -> None:
    rows = diff_texts("a = compute(1)\n", "import os\n\na = compute(2)\n").rows
    assert [bool(row.words) for row in rows] == [True, False, False, True]


def test_ranges_are_those_of_the_exposed_text() -> None:
    old, new = diff_texts("a\u200b word one\n", "a\u200b word two\n").rows
    assert old.text == "a\\u200b word one"
    assert [old.text[start:end] for start, end in old.words] == ["one"]
    assert [new.text[start:end] for start, end in new.words] == ["two"]


def test_ranges_in_json_count_as_javascript_does() -> None:
    _, new = diff_texts("🎉 the word is one\n", "🎉 the word is two\n").rows
    assert new.words == ((14, 17),)
    assert new.to_dict() == {
        "kind": "add",
        "old": None,
        "new": 1,
        "text": "🎉 the word is two",
        "words": [[15, 18]],
    }


def test_unchanged_lines_between_changes_are_a_gap() -> None:
    lines = [str(n) for n in range(20)]
    changed = ["zero", *lines[1:19], "nineteen"]
    diff = diff_texts("\n".join(lines), "\n".join(changed), context=2)
    assert texts(diff) == [
        *(("-", "0"), ("+", "zero"), (" ", "1"), (" ", "2"), ("…", "14 unchanged lines")),
        *((" ", "17"), (" ", "18"), ("-", "19"), ("+", "nineteen")),
    ]


def test_a_gap_of_one_line_is_that_line() -> None:
    diff = diff_texts("a\n1\n2\n3\nb\n", "A\n1\n2\n3\nB\n", context=1)
    assert [text for _, text in texts(diff)] == ["a", "A", "1", "2", "3", "b", "B"]


@pytest.mark.parametrize("moved", [300, 200])
def test_a_moved_block_is_found_by_its_unique_lines(moved: int) -> None:
    block, tail = [f"line {n}" for n in range(300)], [f"tail {n}" for n in range(moved)]
    diff = diff_texts("\n".join([*block, *tail, ""]), "\n".join([*tail, *block, ""]))
    assert (diff.added, diff.removed) == (moved, moved)


def test_large_blocks_without_unique_lines_are_replaced_as_a_whole() -> None:
    diff = diff_texts("a\nb\n" * 500, "b\na\na\n" * 500)
    assert diff.removed == 1000
    assert diff.added == 1500


def test_the_rows_are_limited_and_the_rest_is_counted() -> None:
    diff = diff_texts("", "x\n" * 100, most_rows=10)
    assert len(diff.rows) == 10
    assert diff.omitted == 90


def test_after_the_budget_lines_are_not_compared() -> None:
    old = "".join(f"{n} {'word ' * 150}\n" for n in range(500))
    new = "".join(f"{n} {'word ' * 150}!\n" for n in range(500))
    rows = diff_texts(old, new, most_rows=2000).rows
    compared = [row for row in rows if row.words]
    assert 0 < len(compared) < 500
    assert len(rows) == 1000


def test_many_lines_are_matched_within_the_budget() -> None:
    """Interleaved unique lines: each search for anchors costs all of them."""
    old = "\n".join(f"{n}\nx" for n in range(3000))
    new = "\n".join(f"{n}\ny" for n in range(3000))
    diff = diff_texts(old, new)
    assert (diff.added, diff.removed) == (3000, 3000)


def test_after_the_budget_lines_are_not_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff_rows, "_LINE_BUDGET", 10)
    diff = diff_texts("a\nb\nc\nd\n", "1\nb\n2\nd\n3\n4\n5\n")
    assert (diff.added, diff.removed) == (7, 4)


@pytest.mark.parametrize("at", [0, 5000, 19_000])
def test_a_long_line_is_shown_where_it_changes(at: int) -> None:
    old = "ab " * 6500
    new = f"{old[:at]}CHANGED{old[at:]}"
    before, after = diff_texts(f"{old}\n", f"{new}\n").rows
    assert [after.text[start:end] for start, end in after.words] == ["CHANGED"]
    assert len(after.text) < LONGEST_TEXT + 100
    assert "characters]" in after.text
    assert before.words == ()


def test_long_lines_with_little_in_common() -> None:
    rows = diff_texts("a" * 3000, "b" * 3000).rows
    assert [row.words for row in rows] == [(), ()]
    assert rows[0].text == f"{'a' * LONGEST_TEXT} [2,000 characters]"


def test_a_line_of_many_words_has_one_range() -> None:
    old, new = diff_texts(". " * 400 + "one", ". " * 400 + "two").rows
    assert old.words == new.words == ((800, 803),)
