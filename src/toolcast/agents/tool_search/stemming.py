"""The words of a text, as a search compares them: their stems, and what is known of everyday English.

A compound, `createIssue`, `create_issue` or `e-mail`, is its parts and the whole. Accents and endings count for
nothing: `Cafés` and `cafe` are one word, `created` and `create` another. An ending is cut off by a few rules that look
at nothing but letters, so a stem need not be a word, and may now and then be that of two.

`stop_words.txt` lists the words that are left out, `synonyms.txt` those that may stand for each other. They are read
when the first word is looked up.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

_LONGEST = 40  # letters; what is longer is data


def words(text: str) -> list[str]:
    """The stems of the words of `text`, in their order, those left out that say nothing.

    Where a script has no blanks between words, two letters that follow each other are one.
    """
    return [word for run in _runs.findall(_plain(text)) for word in _words(run)]


def related(word: str) -> tuple[str, ...]:
    """The stems of the words that may stand for `word`, a stem."""
    return _related().get(word, ())


def lines_of(path: Path) -> list[str]:
    """Return the lines of a list of words, without its comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def one_letter_less(word: str) -> list[str]:
    """`word` without its first letter, without its second, and so on."""
    return [word[:at] + word[at + 1 :] for at in range(len(word))]


def _words(run: str) -> list[str]:
    if _is_unspaced(run):
        return [run[at : at + 2] for at in range(max(1, len(run) - 1))]
    parts = [part for part in _breaks.split(run) if part]
    whole = ["".join(parts)] if len(parts) > 1 else []
    folded = [part.casefold() for part in (*parts, *whole) if len(part) <= _LONGEST]
    left_out = _stop_words()
    return [_stem(part) for part in folded if part not in left_out]


def _plain(text: str) -> str:
    """`text` without accents and other marks."""
    if text.isascii():
        return text
    letters = [letter for letter in unicodedata.normalize("NFKD", text) if unicodedata.category(letter)[0] != "M"]
    return unicodedata.normalize("NFC", "".join(letters))


_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
_runs = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+(?:-[^\W{_UNSPACED}]+)*")
_is_unspaced = re.compile(f"[{_UNSPACED}]").match
_breaks = re.compile(
    r"[\W_]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[0-9])(?=[^\W\d_])|(?<=[^\W\d_])(?=[0-9])"
)


@lru_cache(maxsize=10_000)
def _stem(word: str) -> str:
    for ending, instead in _ENDINGS:
        word = ending.sub(instead, word)
    return word


_ENDINGS = [
    (re.compile(ending), instead)
    for ending, instead in (
        (r"(?<=..)ie[sd]$", "y"),
        (r"(ss|x|z|ch|sh)es$", r"\1"),
        (r"(?<=..[^sui])s$", ""),
        (r"(?<=....)at(?:e|ed|ing|ion|or)$", ""),
        (r"^(?=.*[aeiouy].*(?:ing|[^e]ed)$)(.{3,})(?:ing|ed)$", r"\1"),
        (r"(?<=...)ment$", ""),
        (r"(?<=....[st])ion$", ""),
        (r"(?<=.....)[eo]r$", ""),
        (r"(?<=....)ly$", ""),
        (r"([^\W\daeiou])\1$", r"\1"),
        (r"(?<=..)e$", ""),
    )
]


@lru_cache(maxsize=1)
def _stop_words() -> frozenset[str]:
    return frozenset(lines_of(Path(__file__).with_name("stop_words.txt")))


@lru_cache(maxsize=1)
def _related() -> Mapping[str, tuple[str, ...]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for line in lines_of(Path(__file__).with_name("synonyms.txt")):
        stems = {words(word)[-1] for word in line.split()}  # of a compound the whole
        for stem in stems:
            found[stem] |= stems - {stem}
    return {stem: tuple(sorted(others)) for stem, others in found.items()}
