"""BM25 search over names, descriptions and parameters of tools.

A tool's document is its name, its description, and its parameters with theirs; words in the name count most. The index
is inverted: for each word it has the tools that contain it, with their scores. A query costs as much as its words have
such entries, however many tools there are.

Words that are likely to be meant count half: synonyms (synonyms.txt), and for an unknown word those that are one edit
away.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from typing import Any, NamedTuple, Protocol, cast

from ...text.stemming.stems import single_deletions, stems, synonyms

_SATURATION, _LENGTH = 1.2, 0.5  # BM25's k1 and b
_IN_NAME, _IN_DESCRIPTION, _IN_PARAMETERS = 3, 2, 1
_GUESS_WEIGHT = 0.5  # the weight of a word that only may be meant
_MAX_CHOICES = 10


class ToolDescription(Protocol):
    """The described parts of a tool: a `ToolSpec` or a `CallableTool`."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...


class ScoredTool(NamedTuple):
    """A search result: the index of the tool, its name, and its score; higher is better."""

    place: int
    name: str
    score: float


class ToolIndex:
    """An inverted index of `tools`."""

    def __init__(self, tools: Iterable[ToolDescription]) -> None:
        described = tuple(tools)
        self.names: tuple[str, ...] = tuple([tool.name for tool in described])
        self._scores: dict[str, list[tuple[int, float]]] = _word_scores([_count_words(tool) for tool in described])
        self._near: defaultdict[str, list[str]] = defaultdict(list)
        for word in self._scores:
            for form in (word, *single_deletions(word)):
                self._near[form].append(word)

    def best(self, query: str | Iterable[tuple[str, float]], limit: int = 5) -> list[ScoredTool]:
        """Return at most `limit` tools that match a query, the best first; equals in the order of the index.

        `query` is a text, or several, each with its weight. A tool without any of the words is not found.
        """
        texts = [(query, 1.0)] if isinstance(query, str) else query
        scores: defaultdict[int, float] = defaultdict(float)
        for word, weight in self._query_words(texts).items():
            for place, score in self._scores[word]:
                scores[place] += weight * score
        first = heapq.nsmallest(limit, scores, key=lambda place: (-scores[place], place))
        return [ScoredTool(place, self.names[place], scores[place]) for place in first]

    def _query_words(self, texts: Iterable[tuple[str, float]]) -> dict[str, float]:
        """Return the words of the index that the query matches, each with its greatest weight."""
        found: dict[str, float] = {}
        for text, weight in texts:
            for word in stems(text):
                for meant, sure in self._expansions(word):
                    if meant in self._scores:
                        found[meant] = max(found.get(meant, 0.0), weight * sure)
        return found

    def _expansions(self, word: str) -> Iterator[tuple[str, float]]:
        """Yield the words that `word` may mean, with their weights."""
        is_known = word in self._scores or bool(synonyms(word))
        similar = [] if is_known else self._similar(word)
        for form_of_word, sure in [(word, 1.0), *((each, _GUESS_WEIGHT) for each in similar)]:
            yield form_of_word, sure
            yield from ((other, sure * _GUESS_WEIGHT) for other in synonyms(form_of_word))

    def _similar(self, word: str) -> list[str]:
        """Return the words of the index that are one edit away: a letter added, removed, replaced or swapped."""
        forms = [word, *single_deletions(word)] if len(word) > 4 else []
        return sorted({near for form in forms for near in self._near.get(form, [])})


# The texts of tools.


def _count_words(tool: ToolDescription) -> Counter[str]:
    """Return how often each word occurs in the texts of `tool`, weighted by the place."""
    count: Counter[str] = Counter()
    for text, score in _texts(tool):
        for word in stems(text):
            count[word] += score
    return count


def _texts(tool: ToolDescription) -> Iterator[tuple[str, int]]:
    yield tool.name, _IN_NAME
    yield tool.description, _IN_DESCRIPTION
    waiting: list[object] = [tool.parameters]
    while waiting:  # a schema may be nested deeper than calls can be
        schema = waiting.pop()
        if isinstance(schema, list):
            waiting += cast("list[object]", schema)
        elif isinstance(schema, Mapping):
            for key, value in cast("Mapping[object, object]", schema).items():
                yield from ((text, _IN_PARAMETERS) for text in _schema_texts(key, value))
                waiting.append(value)


def _schema_texts(key: object, value: object) -> Iterator[str]:
    """Yield the texts at one key of a schema: names of parameters, descriptions, and choices."""
    if key == "properties" and isinstance(value, Mapping):
        yield from map(str, cast("Mapping[object, object]", value))
    elif key == "description" and isinstance(value, str):
        yield value
    elif key == "enum" and isinstance(value, list):
        choices = cast("list[object]", value)
        if len(choices) <= _MAX_CHOICES:  # a list of all countries does not describe the purpose of the tool
            yield from map(str, choices)


def _word_scores(counts: Sequence[Counter[str]]) -> dict[str, list[tuple[int, float]]]:
    """Return for each word the tools that contain it, with its BM25 score there."""
    lengths = [sum(count.values()) for count in counts]
    usual = sum(lengths) / max(1, len(lengths))
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, count in enumerate(counts):
        for word in count:
            places[word].append(place)
    score: dict[str, list[tuple[int, float]]] = {}
    for word, found in places.items():
        rarity = log(1 + (len(counts) - len(found) + 0.5) / (len(found) + 0.5))
        score[word] = [(at, rarity * _saturate(counts[at][word], lengths[at] / usual)) for at in found]
    return score


def _saturate(count: int, length: float) -> float:
    """Return the term-frequency factor of BM25 for `count` occurrences in a text of relative `length`."""
    return count * (_SATURATION + 1) / (count + _SATURATION * (1 - _LENGTH + _LENGTH * length))
