"""Texts that match a regular expression, for the strings of an `AutoLLM`."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from random import Random
from typing import Any, Final

_TRIES: Final = 100
_CHARACTERS: Final = string.ascii_letters + string.digits + string.punctuation + " "
_CLASSES: Final = {"DIGIT": string.digits, "WORD": string.ascii_letters + string.digits + "_", "SPACE": " \t"}


def text_matching(pattern: str, chance: Random, shortest: int, longest: int | None) -> str | None:
    """Return a text that matches `pattern`, with a length between the limits; None if none was found."""
    compiled = _parsed(pattern)
    if compiled is None:
        return None
    matches, tree = compiled
    for number in range(_TRIES):
        # Repetitions go on up to this length. What has to follow them is unknown.
        end = shortest if number % 2 or longest is None else longest
        text = _Writer(chance, max(end - chance.randint(0, 2 + number // 3), 0)).write(tree)
        if shortest <= len(text) <= (len(text) if longest is None else longest) and matches.search(text):
            return text
    return None


@lru_cache(256)
def _parsed(pattern: str) -> tuple[re.Pattern[str], Sequence[Any]] | None:
    """Return the compiled pattern and its syntax tree; None for one that is not in Python's syntax."""
    try:
        tree: Sequence[Any] = import_module("re._parser").parse(pattern)
        return re.compile(pattern), tree
    except re.error:  # Pydantic's default engine is another one, with the classes of Unicode for example
        return None


class _Writer:
    """A writer of one text, which repeats characters up to the length `end`, or else a few times."""

    def __init__(self, chance: Random, end: int) -> None:
        self._chance = chance
        self._end = end
        self._length = 0
        self._groups: dict[int, str] = {}

    def write(self, tree: Sequence[Any]) -> str:
        """Return a text for a syntax tree."""
        return "".join([self._one(str(kind), value) for kind, value in tree])

    def _one(self, kind: str, value: Any) -> str:
        if kind in ("LITERAL", "ANY", "NOT_LITERAL", "IN"):
            self._length += 1
            return chr(value) if kind == "LITERAL" else self._character(kind, value)
        if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            return self._repeated(*value)
        if kind == "BRANCH":
            return self.write(self._chance.choice(value[1]))
        if kind == "SUBPATTERN":
            self._groups[value[0]] = text = self.write(value[-1])
            return text
        if kind == "ATOMIC_GROUP":
            return self.write(value)
        # Anchors and assertions add nothing: the text is compared with the whole pattern at the end.
        return self._groups.get(value, "") if kind == "GROUPREF" else ""

    def _repeated(self, least: int, most: int, tree: Sequence[Any]) -> str:
        texts = [self.write(tree) for _ in range(least)]
        few = self._chance.randint(0, 2)
        while len(texts) < most and (self._length < self._end or len(texts) < least + few):
            before = self._length
            texts.append(self.write(tree))
            if self._length == before:  # a repetition of nothing
                break
        return "".join(texts)

    def _character(self, kind: str, value: Any) -> str:
        if kind == "ANY":
            return self._chance.choice(string.ascii_lowercase)
        if kind != "IN":
            value, excluded = [(kind.removeprefix("NOT_"), value)], kind == "NOT_LITERAL"
        else:
            excluded = str(value[0][0]) == "NEGATE"
        given = dict.fromkeys("".join(_characters(value)))
        wanted = [each for each in _CHARACTERS if each not in given] if excluded else list(given)
        return self._chance.choice(wanted or ["?"])


def _characters(items: Sequence[Any]) -> Iterator[str]:
    """Yield the characters of a set."""
    for kind, value in items:
        if str(kind) == "LITERAL":
            yield chr(value)
        elif str(kind) == "RANGE":
            yield "".join(map(chr, range(value[0], min(value[1], value[0] + 200) + 1)))
        elif str(kind) == "CATEGORY":
            name = str(value).removeprefix("CATEGORY_")
            known = _CLASSES[name.removeprefix("NOT_")]
            yield "".join([each for each in _CHARACTERS if each not in known]) if name.startswith("NOT_") else known
