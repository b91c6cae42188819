"""Which tools a text may be about, by its words alone: BM25 over what tools say of themselves.

A tool is the words of its name, its description, and of its parameters with theirs; those of the name count most. The
index has for each word the tools it stands in, with what it is worth there. A question costs as much as there are such
places of its words, however many tools there are.

For half as much count words that were not said but may be meant: those that search_words.py says may stand for one that
was, and, for a word that nobody knows, those that are one letter away.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from typing import Any, NamedTuple, Protocol, cast

from .stemming import one_letter_less, related, words

_SATURATION, _LENGTH = 1.2, 0.5  # BM25's k1 and b
_IN_NAME, _IN_DESCRIPTION, _IN_PARAMETERS = 3, 2, 1
_GUESSED = 0.5  # what a word counts that was not said, but may be meant
_FEW = 10


class Described(Protocol):
    """What says of itself what it does: a `ToolSpec` or a `CallableTool`."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...


class Scored(NamedTuple):
    """A tool that was found: its `place` among those of the index, its name, and how well it fits; more is better."""

    place: int
    name: str
    score: float


class ToolIndex:
    """The words of `tools`, ready to be searched."""

    def __init__(self, tools: Iterable[Described]) -> None:
        described = tuple(tools)
        self.names: tuple[str, ...] = tuple([tool.name for tool in described])
        self._worth: dict[str, list[tuple[int, float]]] = _worth([_counted(tool) for tool in described])
        self._near: defaultdict[str, list[str]] = defaultdict(list)
        for word in self._worth:
            for form in (word, *one_letter_less(word)):
                self._near[form].append(word)

    def best(self, said: str | Iterable[tuple[str, float]], limit: int = 5) -> list[Scored]:
        """The at most `limit` tools that fit what was `said`, the best first; of equals, the first of the index.

        `said` is a text, or several, each with its weight. A tool that has none of the words is not found.
        """
        texts = [(said, 1.0)] if isinstance(said, str) else said
        scores: defaultdict[int, float] = defaultdict(float)
        for word, weight in self._known(texts).items():
            for place, worth in self._worth[word]:
                scores[place] += weight * worth
        first = heapq.nsmallest(limit, scores, key=lambda place: (-scores[place], place))
        return [Scored(place, self.names[place], scores[place]) for place in first]

    def _known(self, texts: Iterable[tuple[str, float]]) -> dict[str, float]:
        """The words of the index that are meant, each with the greatest weight with which it was said."""
        known: dict[str, float] = {}
        for text, weight in texts:
            for word in words(text):
                for meant, sure in self._meant(word):
                    if meant in self._worth:
                        known[meant] = max(known.get(meant, 0.0), weight * sure)
        return known

    def _meant(self, word: str) -> Iterator[tuple[str, float]]:
        """The words that `word` may mean, and how sure that is."""
        is_known = word in self._worth or bool(related(word))
        similar = [] if is_known else self._similar(word)
        for spelt, sure in [(word, 1.0), *((each, _GUESSED) for each in similar)]:
            yield spelt, sure
            yield from ((other, sure * _GUESSED) for other in related(spelt))

    def _similar(self, word: str) -> list[str]:
        """The words of the index that become `word` where a letter is added, left out, changed, or swapped."""
        forms = [word, *one_letter_less(word)] if len(word) > 4 else []
        return sorted({near for form in forms for near in self._near.get(form, [])})


# What tools say of themselves.


def _counted(tool: Described) -> Counter[str]:
    """How often each word stands in what `tool` says of itself, by what that place counts."""
    count: Counter[str] = Counter()
    for text, worth in _texts(tool):
        for word in words(text):
            count[word] += worth
    return count


def _texts(tool: Described) -> Iterator[tuple[str, int]]:
    yield tool.name, _IN_NAME
    yield tool.description, _IN_DESCRIPTION
    waiting: list[object] = [tool.parameters]
    while waiting:  # a schema may be nested deeper than calls can be
        schema = waiting.pop()
        if isinstance(schema, list):
            waiting += cast("list[object]", schema)
        elif isinstance(schema, Mapping):
            for key, value in cast("Mapping[object, object]", schema).items():
                yield from ((text, _IN_PARAMETERS) for text in _told(key, value))
                waiting.append(value)


def _told(key: object, value: object) -> Iterator[str]:
    """What one key of a schema tells: names of parameters, what they are, and what they may be."""
    if key == "properties" and isinstance(value, Mapping):
        yield from map(str, cast("Mapping[object, object]", value))
    elif key == "description" and isinstance(value, str):
        yield value
    elif key == "enum" and isinstance(value, list):
        choices = cast("list[object]", value)
        if len(choices) <= _FEW:  # a list of all countries does not say what the tool is for
            yield from map(str, choices)


def _worth(counts: Sequence[Counter[str]]) -> dict[str, list[tuple[int, float]]]:
    """For each word the places of the tools that have it, with what it is worth there."""
    lengths = [sum(count.values()) for count in counts]
    usual = sum(lengths) / max(1, len(lengths))
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, count in enumerate(counts):
        for word in count:
            places[word].append(place)
    worth: dict[str, list[tuple[int, float]]] = {}
    for word, found in places.items():
        rarity = log(1 + (len(counts) - len(found) + 0.5) / (len(found) + 0.5))
        worth[word] = [(at, rarity * _saturated(counts[at][word], lengths[at] / usual)) for at in found]
    return worth


def _saturated(count: int, length: float) -> float:
    """What a word is worth that was said so often, in a text so many times as long as usual."""
    return count * (_SATURATION + 1) / (count + _SATURATION * (1 - _LENGTH + _LENGTH * length))
