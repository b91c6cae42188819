"""search_words.py: the words of a text as a search compares them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from toolcast.text.stemming.stems import single_deletions, stems, synonyms


def one(text: str) -> str:
    """The stem of a text of one word."""
    (stem,) = stems(text)
    return stem


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("send_email", ["send", "email", "sendemail"]),
        ("sendEmail", ["send", "email", "sendemail"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("GitHub", ["git", "hub", "github"]),
        ("e-mail", ["e", "mail", "email"]),
        ("mcp__files__read", ["mcp", "files", "read", "mcpfilesread"]),
        ("files.read", ["files", "read"]),
        ("PDFs", ["PD", "Fs", "pdf"]),
        ("__", []),
    ],
)
def test_a_compound_is_its_parts_and_the_whole(text: str, parts: list[str]) -> None:
    assert stems(text) == [one(part) for part in parts]


@pytest.mark.parametrize(
    "same",
    [
        "file files",
        "box boxes",
        "address addresses",
        "search searches searched searching",
        "copy copies copied copying",
        "create creates created creating creation creator",
        "plan plans planned planning planner",
        "run running",
        "translate translation translator translating",
        "pay payment payments",
        "remind reminder reminders",
        "convert converter converting",
        "month monthly",
        "call calls called calling",
        "café Cafés cafe CAFE",
        "Straße strasse",
        "погода ПОГОДА",
    ],
)
def test_endings_and_accents_count_for_nothing(same: str) -> None:
    assert len({one(word) for word in same.split()}) == 1


@pytest.mark.parametrize("different", ["need speed", "string strong", "status station", "bus business", "thing think"])
def test_words_that_are_not_the_same(different: str) -> None:
    first, second = different.split()
    assert stems(first) != stems(second)


def test_letters_and_digits_are_parts() -> None:
    assert stems("base64") == [one("base"), "64", "base64"]
    assert "64" not in synonyms("base64")


def test_stop_words_are_left_out() -> None:
    assert stems("Could you please tell me what's the weather like?") == [one("weather")]
    assert stems("Thanks, that is all. It isn't much, don't you know?") == []


def test_scripts_without_blanks_are_taken_by_two_letters() -> None:
    assert stems("天気予報") == ["天気", "気予", "予報"]
    assert stems("雨 Tokyoの天気") == ["雨", "tokyo", "の天", "天気"]
    assert set(stems("สภาพอากาศ")) & set(stems("อากาศ"))


def test_data_is_no_word() -> None:
    assert stems("x" * 41) == []
    assert stems("x" * 1_000_000) == []
    assert len(stems("ab" * 20)) == 1


def test_words_that_stand_for_each_other() -> None:
    assert one("taxi") in synonyms(one("cabs"))
    assert one("cab") in synonyms(one("taxi"))
    assert one("email") not in synonyms(one("taxi"))
    assert synonyms("nobodysaysthis") == ()
    assert list(synonyms("mail")) == sorted(synonyms("mail"))


def test_a_group_joins_the_words_of_another_no_further() -> None:
    assert one("movie") in synonyms(one("film"))  # and `film` is among the clips and videos too
    assert one("clip") in synonyms(one("film"))
    assert one("clip") not in synonyms(one("actor"))


def test_one_letter_less() -> None:
    assert single_deletions("abc") == ["bc", "ac", "ab"]
    assert single_deletions("") == []


@given(st.text())
def test_any_text_has_words(text: str) -> None:
    found = stems(text)
    assert all(found)
    assert found == stems(text)


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", max_size=50))
def test_a_word_in_capitals_is_the_same(text: str) -> None:
    assert stems(text) == stems(text.upper())


@given(st.text(), st.text())
def test_words_of_two_lines_are_those_of_each(first: str, second: str) -> None:
    assert stems(f"{first}\n{second}") == stems(first) + stems(second)
