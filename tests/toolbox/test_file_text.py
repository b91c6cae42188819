"""texts.py: bytes to text, and the text of an edit back to bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from toolcast.errors import TryAgain
from toolcast.toolbox.file_text import FileText, lines_of, text_in


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (b"caf\xc3\xa9", "café", "utf-8"),
        (b"\xef\xbb\xbfcaf\xc3\xa9", "café", "utf-8"),
        (b"caf\xe9", "café", "latin-1"),
        ("café".encode("utf-16"), "café", "utf-16-le"),
        (b"\xfe\xff\x00a", "a", "utf-16-be"),
        (b"", "", "utf-8"),
    ],
)
def test_encodings(data: bytes, text: str, encoding: str) -> None:
    found = text_in(data, "x")
    assert (found.text, found.encoding) == (text, encoding)
    assert found.data("x") == data


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\0\0", b"a\0", "a".encode("utf-16-le"), "a".encode("utf-32")])
def test_what_is_no_text(data: bytes) -> None:
    with pytest.raises(TryAgain, match=f"x.png is no text but a binary file, of {len(data)} bytes"):
        text_in(data, "x.png")


@given(st.binary().filter(lambda data: b"\0" not in data))
def test_no_byte_is_changed(data: bytes) -> None:
    try:
        assert text_in(data, "x").data("x") == data
    except TryAgain:
        assert data.startswith((b"\xff\xfe", b"\xfe\xff"))


def test_a_sign_that_the_encoding_lacks() -> None:
    with pytest.raises(TryAgain, match="x is in latin-1, which has no '€'; write it without"):
        FileText("5 €", "latin-1").data("x")


@pytest.mark.parametrize(
    ("text", "newline"), [("a", "\n"), ("a\nb\r\n", "\n"), ("a\r\nb\r\nc\n", "\r\n"), ("", "\n"), ("a\rb", "\n")]
)
def test_line_ends(text: str, newline: str) -> None:
    assert FileText(text).newline == newline


def test_lines() -> None:
    assert FileText("a\r\nb\n\n").lines == ["a", "b", ""]
    assert lines_of("a\x0b\u2028b") == ["a\x0b\u2028b"]  # these end no line for a search
    assert lines_of("") == []
