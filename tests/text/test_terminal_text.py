"""Text from outside, as it is written to a terminal."""

from __future__ import annotations

import json
import sys
from unicodedata import category

import pytest

from toolcast.text.terminal_text import exposed, visible


@pytest.mark.fault(143)
def test_visible() -> None:
    assert visible("a\tb\r\nc\x1b[2Jd\u202ee\r") == "a\tb\nc\\x1b[2Jd\\u202ee\\r"


@pytest.mark.parametrize("hidden", ["\u2028", "\u2029", "\u2060", "\ufeff", "\U000e0041", "\u2066", "\x9b"])
def test_what_acts_without_being_seen_shows_in_prose_too(hidden: str) -> None:
    assert visible(f"a{hidden}b") == f"a{ascii(hidden)[1:-1]}b"


def test_prose_keeps_what_writing_needs() -> None:
    prose = "شكرًا‌ 日本　語 ❤️ 👩‍👧 a\u00a0b \u200fא"
    assert visible(prose) == prose


UNSEEN = (
    "\u200b\u200c\u200d\u200e\u200f\u061c\u2028\u2029\u00ad\u034f\u115f\u1160\u17b4\u180e\u2060\u2064\u2800\u3164\uffa0"
    "\ufe00\ufe0f\ufeff\ufffb\U000e0001\U000e0020\U000e007f\U000e0100\U000e01ef\U0001d173\u202e\u2066\x00\x1b\x7f\x85"
    "\xa0\u1680\u2000\u2003\u200a\u202f\u205f\u3000\ue000\U000f0000\U0010fffd\ud800"
)


@pytest.mark.parametrize("character", UNSEEN, ids=lambda each: f"U+{ord(each):04X}")
def test_what_is_exposed(character: str) -> None:
    shown = exposed(f"a{character}b")
    assert shown.isascii()
    assert shown.isprintable()
    assert json.loads(f'"{shown}"') == f"a{character}b"


@pytest.mark.slow
def test_what_is_exposed_of_all_of_unicode() -> None:
    """All blanks but one, all controls but two, and of letters and symbols only those that are empty."""
    changed = {sign for sign in map(chr, range(sys.maxunicode + 1)) if exposed(sign) != sign}
    kinds: dict[str, set[str]] = {}
    for sign in map(chr, range(sys.maxunicode + 1)):
        kinds.setdefault(category(sign), set()).add(sign)
    for kind in ("Zs", "Zl", "Zp", "Cc", "Co", "Cs"):
        assert kinds[kind] - changed <= set(" \t\n")
    for kind in ("Ll", "Lu", "Lt", "Lm", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk"):
        assert not kinds[kind] & changed
    assert (kinds["Lo"] | kinds["So"]) & changed == set("\u115f\u1160\u3164\uffa0\u2800")


def test_the_words_around_what_is_exposed_stay() -> None:
    assert exposed('{\n\t"to": "bob\u200b@x",\n "n": "naïve 日本語 ❤"}') == (
        '{\n\t"to": "bob\\u200b@x",\n "n": "naïve 日本語 ❤"}'
    )
    assert exposed("\U000e0041") == "\\udb40\\udc41"
