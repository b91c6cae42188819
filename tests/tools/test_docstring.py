"""Docstrings in the three styles, and in none."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from toolcast.tools.function_schema import Docstring, parse

GOOGLE = """Look something up.

    In every book.

    Args:
        words (str): what to look for
            in the book
        limit (Callable[[int], str], optional): how many
        *rest: more words
        below:
            its text
        silent (int):

    Returns:
        int: the page

    Raises:
        KeyError: never
    """

NUMPY = """Look something up.

    In every book.

    Parameters
    ----------
    words : str
        what to look for
        in the book
    limit, below : {'a', 'b'}, optional
        its text
    **rest
        more words
    silent

    Returns
    -------
    int
        the page
    """

SPHINX = """Look something up.

    In every book.

    :param words: what to look for
        in the book
    :param int limit: how many
    :type limit: int
    @param below: its text
    :returns: the page
    :raises KeyError: never
    :param rest: more words

    This belongs to nothing.
    """

DESCRIPTIONS = {"words": "what to look for in the book", "below": "its text", "rest": "more words"}


@pytest.mark.parametrize(("text", "limit"), [(GOOGLE, "how many"), (NUMPY, "its text"), (SPHINX, "how many")])
def test_the_styles(text: str, limit: str) -> None:
    found = parse(text)
    assert found.description == "Look something up.\n\nIn every book."
    assert found.parameters == DESCRIPTIONS | {"limit": limit}


def test_text_after_a_google_section_is_description() -> None:
    assert parse("One.\n\nArgs:\n    x: it\n\nTwo.") == Docstring("One.\n\nTwo.", {"x": "it"})


def test_google_sections_may_be_the_whole_text() -> None:
    assert parse("Args:\n  x: it\n  y: that") == Docstring("", {"x": "it", "y": "that"})


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_nothing(text: str | None) -> None:
    assert parse(text) == Docstring()


@pytest.mark.parametrize("text", ["Just words.", "Title\n-----\nText: more\n  x: y", "A list\n- a: b"])
def test_no_style(text: str) -> None:
    assert parse(text) == Docstring(text)


LINES = st.sampled_from(["Args:", "Parameters", "---", "----", ":param x: y", "  x: y", "x : int", "", "word", "@a"])


@given(st.lists(LINES | st.text(max_size=8)).map("\n".join))
def test_any_text_can_be_read(text: str) -> None:
    found = parse(text)
    assert all(name.isidentifier() or name[0].isdigit() for name in found.parameters)
    assert all(words and "\n" not in words for words in found.parameters.values())
