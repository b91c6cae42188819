"""Markdown that arrives in pieces: which blocks are finished, and that they mean the same alone as in the whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.apps.repl import rich_rows
from toolcast.apps.repl.live_markdown import LONGEST_PART, Block, LiveMarkdown


def blocks(*pieces: str) -> list[Block]:
    """All blocks of a text that comes in these pieces."""
    live = LiveMarkdown()
    return [block for piece in pieces for block in live.feed(piece)] + live.close()


def texts(*pieces: str) -> list[str]:
    return [block.text for block in blocks(*pieces)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        ("\n\n \n", []),
        ("a\nb", ["a\nb"]),
        ("a\n\n\nb\n", ["a", "b"]),
        ("# one\ntwo\n## three\n", ["# one", "two", "## three"]),
        ("one\n===\n\ntwo", ["one\n===", "two"]),
        ("one\n---\n- - -\n", ["one\n---\n- - -"]),
        ("- a\n- b\n\n- c\n\nd", ["- a", "- b", "- c", "d"]),
        ("- a\n\n  b\n\n  ~~~\n  c\n\n  d\n  ~~~\n- e", ["- a\n\n  b\n\n  ~~~\n  c\n\n  d\n  ~~~", "- e"]),
        ("- a\n  - b\n    - c\n- d", ["- a\n  - b\n    - c", "- d"]),
        ("- a\nlazy\n- b", ["- a\nlazy", "- b"]),
        ("-     code\n\n  b", ["-     code\n\n  b"]),
        ("-\n  a\n- b\n\nc", ["-\n  a\n- b", "c"]),
        ("a\n- b\n* c", ["a", "- b", "* c"]),
        ("a\n-\nb", ["a\n-\nb"]),
        ("a\n2. b\n1. c\n\nd", ["a\n2. b\n1. c", "d"]),
        ("The sum is\n14. That is all.", ["The sum is\n14. That is all."]),
        ("3. a\n3. b\n1) c", ["3. a", "4. b", "1) c"]),
        ("> a\n> b\n\n> c", ["> a\n> b", "> c"]),
        ("| a |\n|---|\n| 1 |\n\nb", ["| a |\n|---|\n| 1 |", "b"]),
    ],
)
def test_blocks(text: str, wanted: list[str]) -> None:
    assert texts(text) == texts(*text) == wanted


def test_numbers_are_counted_where_all_are_one() -> None:
    """A list of which every item is written as the first; what belongs to the tenth stays below its text."""
    items = "".join(f"1. item\n   - {number}\n" for number in range(1, 12))
    *_, tenth, eleventh = texts(items)
    assert (tenth, eleventh) == ("10. item\n    - 10", "11. item\n    - 11")


def test_code_comes_in_parts() -> None:
    text = "so:\n```python title\ndef a():\n\n    return 1\n\ndef b():\n    pass\n```\nend"
    assert blocks(text) == blocks(*text) == [
        Block("text", "so:"),
        Block("fence", "```python title"),
        Block("code", "def a():\n\n    return 1\n", "python", joined=True),
        Block("code", "def b():\n    pass", "python", joined=True),
        Block("fence", "```", joined=True),
        Block("text", "end"),
    ]  # fmt: skip


def test_long_code_is_cut_anywhere() -> None:
    lines = [f"  {number}" for number in range(2 * LONGEST_PART + 1)]
    parts = [block.text.split("\n") for block in blocks("```\n" + "\n".join(lines)) if block.kind == "code"]
    assert [len(part) for part in parts] == [LONGEST_PART, LONGEST_PART, 1]
    assert [line for part in parts for line in part] == lines


@pytest.mark.parametrize(
    ("fence", "inside", "end"),
    [("```", "``", "```"), ("```", "~~~", "`````"), ("~~~~", "~~~", "~~~~  "), ("   ```", "    ```", "```")],
)
def test_what_ends_code(fence: str, inside: str, end: str) -> None:
    kinds = [block.kind for block in blocks(f"{fence}\n{inside}\n{end}\nafter")]
    assert kinds == ["fence", "code", "fence", "text"]


def test_code_without_an_end_is_code() -> None:
    assert blocks("~~~\na\n") == [Block("fence", "~~~"), Block("code", "a", joined=True)]


def test_indented_code_is_taken_back_to_the_margin() -> None:
    assert texts("  ~~~\n  a\n    b\n c\n  ~~~") == ["~~~", "a\n  b\nc", "~~~"]


def test_three_backticks_in_a_line_are_no_fence() -> None:
    assert texts("``` a ```\nb") == ["``` a ```\nb"]


def test_the_tail_is_what_is_open() -> None:
    live = LiveMarkdown()
    assert live.tail == []
    assert live.feed("# a\nb\nsome") == [Block("text", "# a")]
    assert live.tail == live.tail == [Block("text", "b\nsome")]
    assert live.feed(" more\n- x\n- y") == [Block("text", "b\nsome more")]
    assert live.tail == [Block("text", "- x"), Block("text", "- y", joined=True)]
    assert live.close() == [Block("text", "- x"), Block("text", "- y", joined=True)]
    assert live.tail == live.close() == []


def test_the_end_of_code_is_not_shown_as_code_while_it_arrives() -> None:
    live = LiveMarkdown()
    live.feed("```\na\n``")
    assert live.tail == [Block("code", "a", joined=True)]
    live.feed("x")
    assert live.tail == [Block("code", "a\n``x", joined=True)]


# What the blocks mean, by the parser that shows them.

INLINE = st.sampled_from(["word", "two words", "*x*", "`c`", "1. x", "# x", "<b>", "a | b", "[a]: b", "--", "..."])
LINE = st.sampled_from(
    ["", "", "text", "more text", "# head", "- item", "* other", "+ third", "1. one", "1. one\n2. two\n2. three",
     "\n10. ten", "1) par", "  - nested", "    deep", "   three", "> quote", ">", "---", "***", "===", "```",
     "```python", "~~~", "  after", "| a | b |", "|---|---|", "-", "1.", "<div>", "[a]: b", "- - -", "-   wide",
     "-      code", "1. - both"]
)  # fmt: skip
TEXT = st.lists(LINE | INLINE, max_size=14).map("\n".join)

Parts = list[tuple[Any, ...]]


def parts_of(text: str) -> Parts:
    """What a text means, item by item. Where lists begin and end is left out: blocks hold parts of them.

    Neither do blanks count at the ends of code, and at the start of a line in a paragraph.
    """
    out: Parts = []
    numbers: list[int | None] = []
    for token in rich_rows.parser().parse(text):
        if token.type.endswith("_list_open"):
            numbers.append(int(token.attrs.get("start", 1)) if token.type.startswith("ordered") else None)
        elif token.type.endswith("_list_close"):
            numbers.pop()
        elif token.type == "list_item_open":
            out.append(("item", token.markup, numbers[-1]))
            numbers[-1] = None if numbers[-1] is None else numbers[-1] + 1
        elif token.type == "fence" and token.level == 0:
            out.append(("code", token.info.strip().split(" ")[0], token.content.rstrip("\n")))
        else:
            out.append((token.type, token.tag, re.sub(r"\n +", "\n", token.content).rstrip()))
    return out


def parts_of_blocks(found: Iterable[Block]) -> Iterator[tuple[Any, ...]]:
    """What blocks mean."""
    code: list[str] | None = None
    language = ""
    for block in found:
        if block.kind == "text":
            yield from parts_of(block.text)
        elif block.kind == "code":
            assert code is not None
            code.append(f"{block.text}\n")
        elif code is None:
            code, language = [], re.sub(r"^[`~]+\s*", "", block.text).split(" ")[0]
        else:
            yield "code", language, "".join(code).rstrip("\n")
            code = None
    if code is not None:
        yield "code", language, "".join(code).rstrip("\n")


def merged(found: Iterable[tuple[Any, ...]]) -> Parts:
    """With code that is only indented in one piece: a blank line in it looks like one between two."""
    out: Parts = []
    for kind, tag, content in found:
        lines = [line for line in str(content).split("\n") if line.strip()] if kind == "code_block" else []
        if lines and out and out[-1][0] == "code_block":
            lines = [*out.pop()[2], *lines]
        out.append((kind, tag, lines or content))
    return out


@given(TEXT)
def test_blocks_mean_what_the_whole_means(text: str) -> None:
    assert merged(parts_of_blocks(blocks(text))) == merged(parts_of(text))


@given(TEXT, st.lists(st.integers(0, 60), max_size=6))
def test_pieces_make_no_difference(text: str, cuts: list[int]) -> None:
    at = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    assert blocks(*[text[i:j] for i, j in pairwise(at)]) == blocks(text)


@given(TEXT, TEXT)
def test_finished_is_finished_and_the_tail_is_the_rest(text: str, more: str) -> None:
    live = LiveMarkdown()
    finished = live.feed(text)
    if not text.rpartition("\n")[2].startswith(("`", "~")):  # which may be held back
        assert finished + live.tail == blocks(text)
    finished += live.feed(more)
    assert blocks(text + more)[: len(finished)] == finished


@given(st.text(alphabet="ab \n`~-*#>|1.)\t\\", max_size=60))
def test_nothing_is_lost(text: str) -> None:
    shown = "".join(block.text for block in blocks(text))
    written = re.sub(r"\d", "", "".join(text.split()))
    assert re.sub(r"\d", "", "".join(shown.split())) == written
