"""Embedders that need no service, found by name.

`default` is the best one without network access: `wordllama`, a small model of word vectors whose wheel contains its
weights, if it is installed, and otherwise `words`, which is written here and needs nothing.
`sentence-transformers:NAME` runs a model of that library.

`words` compares words, not meanings. A text is represented by the stems of its words and their groups of four letters,
so that related words are near each other. Uninformative words have less weight: short, common and repeated ones. A hash
maps each word and each group to a direction, the same in every process; collisions are rare.

The interface of embedders.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from math import log
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable
from zlib import crc32

from ...text.reprs import safe_repr
from ...text.stemming import stems as stemming

Vector: TypeAlias = Iterable[float]
"""An embedding: a list, a tuple, an array of numpy."""


@runtime_checkable
class Embedder(Protocol):
    """The interface of embedders. It may raise, and it may block: under an event loop it runs in a thread."""

    @property
    def name(self) -> str: ...

    def embed(self, texts: Sequence[str], /) -> Iterable[Vector]:
        """Return one vector for each of `texts`, in their order, all of one length."""
        ...


logger: Final = logging.getLogger("toolcast")

_WIDTH = 1024
_GROUP = 4  # letters
_GROUP_WEIGHT = 0.3  # beside a word's 1
_LONG = 8  # letters, from which on a word counts in full
_COMMON_WEIGHT = 0.5


NAMES: Final = ("default", "wordllama", "words", "sentence-transformers:NAME")
"""The names of the embedders."""

LONGEST: Final = 20_000
"""The number of characters of a text that `words` and `wordllama` use."""


def offline_embedder(name: str) -> Embedder | None:
    """Return the embedder called `name`, one of `NAMES`; None for any other. Nothing is loaded before its first use."""
    kind, _, model = name.strip().partition(":")
    if kind == "sentence-transformers" and model:
        return SentenceTransformersEmbedder(model)
    made = {"default": _default, "wordllama": WordLlamaEmbedder, "words": WordsEmbedder}.get(name.strip())
    return None if made is None else made()


def _default() -> Embedder:
    if find_spec("wordllama") is not None:
        return WordLlamaEmbedder()
    logger.info(
        "texts are compared by their words, for want of wordllama; to have them compared by their meaning: "
        "pip install 'toolcast[experiments]'"
    )
    return WordsEmbedder()


class WordsEmbedder:
    """An embedder that compares the words of texts, not meanings; needs nothing installed."""

    name = "words"

    def __repr__(self) -> str:
        return "WordsEmbedder()"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text; all zeros for a text without words."""
        return [_of_words(text[:LONGEST]) for text in texts]


def _of_words(text: str) -> list[float]:
    vector = [0.0] * _WIDTH
    for stem, count in Counter(stemming.stems(text)).items():
        weight = (1 + log(count)) * (min(len(stem), _LONG) / _LONG) ** 2 * (_COMMON_WEIGHT if is_common(stem) else 1)
        for place, part in _directions(stem):
            vector[place] += part * weight
    return vector


@lru_cache(maxsize=10_000)
def _directions(stem: str) -> list[tuple[int, float]]:
    """Return the direction of a word: indexes of the vector, each with the value to add there."""
    spaced = f" {stem} "
    groups = [spaced[at : at + _GROUP] for at in range(len(spaced) - _GROUP + 1)]
    return [_direction(f"={stem}", 1.0), *(_direction(group, _GROUP_WEIGHT) for group in groups)]


def _direction(feature: str, weight: float) -> tuple[int, float]:
    number = crc32(feature.encode("utf-8", "surrogatepass"))
    return number % _WIDTH, weight if number & 0x80000000 else -weight


class WordLlamaEmbedder:
    """An embedder with wordllama's own model of word meanings, 256 numbers each. Needs `toolcast[experiments]`."""

    name = "wordllama"

    def __init__(self) -> None:
        self._model: Any = None

    def __repr__(self) -> str:
        return "WordLlamaEmbedder()"

    def embed(self, texts: Sequence[str]) -> Iterable[Vector]:
        """Return one vector for each text. Raises `ImportError` if wordllama is not installed."""
        if self._model is None:
            self._model = _wordllama()
        # One after the other: in a batch the shorter ones would be filled up to the length of the longest.
        return [self._model.embed(text[:LONGEST])[0] for text in texts]


def _wordllama() -> Any:
    """Load wordllama's model from its package; by default it would be downloaded."""
    try:
        package = _quietly_imported("wordllama")
    except ImportError as error:
        raise ImportError(
            "wordllama is not installed: pip install 'toolcast[experiments]'", name="wordllama"
        ) from error
    return package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)


def _quietly_imported(name: str) -> Any:
    """Import a package that would configure logging for the whole program, and prevent that."""
    root, guard = logging.getLogger(), logging.NullHandler()
    root.addHandler(guard)  # a logger that has a handler is not set up
    try:
        return import_module(name)
    finally:
        root.removeHandler(guard)


class SentenceTransformersEmbedder:
    """An embedder with a model of sentence-transformers, for example `all-MiniLM-L6-v2` as in ContReAct."""

    def __init__(self, model: str) -> None:
        self.name: str = f"sentence-transformers:{model}"
        self._path = model
        self._model: Any = None

    @safe_repr
    def __repr__(self) -> str:
        return f"SentenceTransformersEmbedder({self._path!r})"

    def embed(self, texts: Sequence[str]) -> Iterable[Vector]:
        """Return one vector for each text. Raises `ImportError` if the library is not installed."""
        if self._model is None:
            self._model = self._loaded()
        return list(self._model.encode(list(texts), show_progress_bar=False))

    def _loaded(self) -> Any:
        try:
            library: Any = import_module("sentence_transformers")
        except ImportError as error:
            what = f"{self.name} needs another library: pip install sentence-transformers"
            raise ImportError(what, name="sentence_transformers") from error
        return library.SentenceTransformer(self._path)


def is_common(stem: str) -> bool:
    """Return True if `stem` is that of a common word; these have less weight when texts are compared by their words."""
    return stem in _common_stems()


@lru_cache(maxsize=1)
def _common_stems() -> frozenset[str]:
    words = stemming.read_word_list(Path(__file__).with_name("common_words.txt"))
    return frozenset(stemming.stems(" ".join(words)))
