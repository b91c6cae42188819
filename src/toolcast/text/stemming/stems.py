"""Word splitting, stemming, stop words and synonyms, for searches by words.

A compound, `createIssue`, `create_issue` or `e-mail`, is its parts and the whole. Accents and endings are ignored:
`Cafés` and `cafe` are one word, `created` and `create` another. Endings are removed by a few rules on letters, so a
stem need not be a word, and may be that of two.

`stop_words.txt` lists the words that are left out, `synonyms.txt` groups of words with one meaning. They are read on
first use.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

_LONGEST = 40  # letters; longer words are data


def stems(text: str) -> list[str]:
    """Return the stems of the words of `text`, in order, without stop words.

    In a script without blanks between words, each pair of adjacent letters is a word.
    """
    return [word for run in _runs.findall(_without_accents(text)) for word in _stems_of_run(run)]


def synonyms(word: str) -> tuple[str, ...]:
    """Return the stems of the synonyms of `word`, a stem."""
    return _synonym_table().get(word, ())


def read_word_list(path: Path) -> list[str]:
    """Return the lines of a word list, without its comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def single_deletions(word: str) -> list[str]:
    """Return `word` without its first letter, without its second, and so on."""
    return [word[:at] + word[at + 1 :] for at in range(len(word))]


def _stems_of_run(run: str) -> list[str]:
    if _is_unspaced(run):
        return [run[at : at + 2] for at in range(max(1, len(run) - 1))]
    parts = [part for part in _breaks.split(run) if part]
    whole = ["".join(parts)] if len(parts) > 1 else []
    folded = [part.casefold() for part in (*parts, *whole) if len(part) <= _LONGEST]
    left_out = _stop_words()
    return [_stem(part) for part in folded if part not in left_out]


def _without_accents(text: str) -> str:
    """Return `text` without accents and other marks."""
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
    return frozenset(read_word_list(Path(__file__).with_name("stop_words.txt")))


@lru_cache(maxsize=1)
def _synonym_table() -> Mapping[str, tuple[str, ...]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for line in read_word_list(Path(__file__).with_name("synonyms.txt")):
        group = {stems(word)[-1] for word in line.split()}  # of a compound the whole
        for stem in group:
            found[stem] |= group - {stem}
    return {stem: tuple(sorted(others)) for stem, others in found.items()}
