"""Embedders by their names, and how well those that need no network separate reflections."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from threading import current_thread, main_thread
from types import ModuleType
from typing import Any

import numpy
import pytest
from hypothesis import given, strategies as st

from support.process import Process
from support.reflections import CASES, SEEN, UNSEEN, Scores, area, scores
from toolcast import aembed, embed
from toolcast.errors import BadRequest, MalformedEvent
from toolcast.experiments.similarity import SimilarityMonitor
from toolcast.llms.embeddings.offline import (
    LONGEST,
    Embedder,
    SentenceTransformersEmbedder,
    WordLlamaEmbedder,
    WordsEmbedder,
    is_common,
    offline_embedder,
)

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "similarity.md"


def alone(code: str, **env: str) -> Any:
    """What `code` prints as JSON, run in a process of its own."""
    command = [sys.executable, "-W", "error", "-c", code]
    whole = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env}
    ran = subprocess.run(command, capture_output=True, text=True, env=whole, check=False, timeout=50)
    assert (ran.returncode, ran.stderr) == (0, "")
    return json.loads(ran.stdout)


# Refuses the network, and notes what is opened for writing.
GUARD = """
import json, logging, os, sys
written = []
def guard(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        raise RuntimeError("no network here")
    if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        written.append(str(args[0]))
    if event in ("os.mkdir", "os.rename", "os.remove"):
        written.append(str(args[0]))
sys.addaudithook(guard)
from toolcast.llms.embeddings.offline import offline_embedder
from toolcast.experiments.similarity import SimilarityMonitor
"""

# -- by name


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("wordllama", WordLlamaEmbedder),
        ("words", WordsEmbedder),
        (" words ", WordsEmbedder),
        ("sentence-transformers:all-MiniLM-L6-v2", SentenceTransformersEmbedder),
    ],
)
def test_an_embedder_has_the_name_by_which_it_is_found(name: str, kind: type) -> None:
    found = offline_embedder(name)
    assert type(found) is kind
    assert found.name == name.strip()  # type: ignore[union-attr]  # it is not None


@pytest.mark.parametrize("name", ["", "none", "word2vec", "openai:m", "words:big", "sentence-transformers", "default:"])
def test_other_names(name: str) -> None:
    assert offline_embedder(name) is None


def test_the_default_is_wordllama_where_it_is_installed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert isinstance(offline_embedder("default"), WordLlamaEmbedder)
    assert caplog.records == []


def test_the_default_is_words_where_it_is_not(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    process.without("wordllama")
    assert isinstance(offline_embedder("default"), WordsEmbedder)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("toolcast", "INFO")
    assert "pip install 'toolcast[experiments]'" in record.getMessage()


def test_x14_without_optional_packages_and_network_the_default_embedder_works() -> None:
    code = """
for name in ("wordllama", "numpy", "yaml", "tokenizers", "safetensors", "requests", "rich", "matplotlib"):
    sys.modules[name] = None
monitor = SimilarityMonitor(offline_embedder("default"))
found = [monitor.check(text, cycle) for cycle, text in enumerate(("Rivers bend.", "Rivers bend.", "I like chess."), 1)]
print(json.dumps([[each.score, each.band, each.cycle, each.error] for each in found]))
"""
    first, second, third = alone(GUARD + code)
    assert first == [None, None, None, None]
    assert second == [1.0, "high", 1, None]
    assert third[1] is None
    assert third[3] is None


# -- wordllama


def test_wordllama_uses_no_network_writes_nothing_and_leaves_logging_alone(tmp_path: Path) -> None:
    code = """
vectors = offline_embedder("wordllama").embed(["Rivers bend.", ""])
root = logging.getLogger()
print(json.dumps([[len(vector) for vector in vectors], written, len(root.handlers), root.level]))
"""
    assert alone(GUARD + code, HOME=str(tmp_path)) == [[256, 256], [], 0, logging.WARNING]
    assert list(tmp_path.iterdir()) == []


def test_wordllama_that_is_not_installed_is_named_with_what_installs_it(process: Process) -> None:
    process.without("wordllama")
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[experiments\]'"):
        WordLlamaEmbedder().embed(["a"])


def test_wordllama_embeds_a_text_alike_alone_and_among_others() -> None:
    embedder = WordLlamaEmbedder()
    (alone_,), among = embedder.embed(["Short."]), list(embedder.embed(["Short.", "And a much longer one. " * 50, ""]))
    assert list(among[0]) == list(alone_)
    assert not any(among[2])


@pytest.mark.parametrize("embedder", [WordsEmbedder(), WordLlamaEmbedder()], ids=lambda embedder: embedder.name)
def test_no_more_than_the_beginning_of_a_long_text_is_looked_at(embedder: Embedder) -> None:
    text = ("word " * LONGEST)[:LONGEST]
    one, two = embedder.embed([text, text + "and nothing else"])
    assert list(one) == list(two)


# -- words


def test_words_gives_every_process_the_same_vectors() -> None:
    code = """
print(json.dumps(offline_embedder("words").embed(["Rivers bend, and rivers meander."])))
"""
    here = WordsEmbedder().embed(["Rivers bend, and rivers meander."])
    assert alone(GUARD + code, PYTHONHASHSEED="1") == here
    assert any(here[0])


def test_words_knows_forms_of_a_word_and_what_is_common() -> None:
    monitor = SimilarityMonitor(WordsEmbedder())
    monitor.check("The meandering river eroded its banks.", 1)
    forms = monitor.check("Rivers meander, eroding a bank.", 2)
    assert forms.band == "high"
    monitor = SimilarityMonitor(WordsEmbedder())
    monitor.check("In this cycle I wrote a note on photosynthesis.", 1)
    common = monitor.check("In this cycle I wrote a note on volcanism.", 2)
    assert common.band is None
    assert is_common("cycl") or is_common("cycle")
    assert not is_common("volcanism")


@pytest.mark.parametrize("text", ["", "!?", "the and of"])
def test_a_text_without_words_is_similar_to_nothing(text: str) -> None:
    monitor = SimilarityMonitor(WordsEmbedder())
    assert monitor.check(text + ".", 1).score is None
    assert monitor.check(text + ".", 2).score == 0.0


@given(st.lists(st.text(st.characters(codec=None), max_size=40), max_size=4))
def test_words_takes_any_text(texts: Sequence[str]) -> None:
    vectors = WordsEmbedder().embed(texts)
    assert [len(vector) for vector in vectors] == [1024] * len(texts)
    assert numpy.isfinite(vectors).all()


def test_words_takes_scripts_without_blanks_and_halves_of_characters() -> None:
    one, other, half = WordsEmbedder().embed(["川は曲がる。", "私はチェスが好き。", "half \ud800nd"])
    monitor = SimilarityMonitor(None)
    assert monitor.check_similarity(one, [one])
    assert monitor.check_similarity(one, [other]) is None
    assert any(half)


# -- sentence-transformers: the library itself needs gigabytes


def test_sentence_transformers_is_loaded_once_and_asked_for_all(process: Process) -> None:
    reported: list[Any] = []

    class Model:
        def __init__(self, path: str) -> None:
            reported.append(path)

        def encode(self, texts: list[str], show_progress_bar: bool = True) -> Any:
            reported.append((texts, show_progress_bar))
            return numpy.ones((len(texts), 3), "float32")

    library = ModuleType("sentence_transformers")
    library.SentenceTransformer = Model  # type: ignore[attr-defined]  # a module of the test's own
    process.module("sentence_transformers", library)
    embedder = offline_embedder("sentence-transformers:some/model")
    assert embedder is not None
    monitor = SimilarityMonitor(embedder)
    assert reported == []
    monitor.remember([(1, "a"), (2, "b")])
    assert monitor.check("c", 3).score == 1.0
    assert reported == ["some/model", (["a", "b"], False), (["c"], False)]


def test_sentence_transformers_that_is_not_installed_is_named_with_what_installs_it(
    process: Process,
) -> None:
    process.without("sentence_transformers")
    found = SimilarityMonitor(offline_embedder("sentence-transformers:some/model")).check("a", 1)
    assert "pip install sentence-transformers" in (found.error or "")


# -- through `embed`


class OwnEmbedder:
    name = "own"

    def __init__(self, *vectors: Any) -> None:
        self._vectors = vectors

    def embed(self, texts: Sequence[str]) -> Sequence[Any]:
        return self._vectors


def test_embed_takes_the_names_of_embedders() -> None:
    found = embed(["Rivers bend.", "I like chess."], "words")
    assert found.vectors == WordsEmbedder().embed(["Rivers bend.", "I like chess."])
    assert (found.model, found.provider, found.usage.cost, found.dimensions) == ("words", "", None, 1024)
    one = embed("Rivers bend.", "wordllama")
    assert (one.model, one.dimensions, len(one.vectors)) == ("wordllama", 256, 1)
    assert {type(number) for number in one.vectors[0]} == {float}


async def test_aembed_runs_an_embedder_in_a_thread() -> None:
    threads: list[Any] = []

    class Noting(WordsEmbedder):
        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            threads.append(current_thread())
            return super().embed(texts)

    found = await aembed(["Rivers bend."], Noting())
    assert found.vectors == embed(["Rivers bend."], WordsEmbedder()).vectors
    assert threads[0] is not main_thread()
    assert (await aembed([], "words")).vectors == []


@pytest.mark.parametrize(
    ("vectors", "error", "message"),
    [
        (([1.0],), ValueError, "the embedder own returned 1 vectors for 2 texts"),
        (([1.0], [float("nan")]), MalformedEvent, "the embedding of text 1 has numbers that are not finite"),
        (([1.0], [1.0, 2.0]), MalformedEvent, "the embedding of text 1 has 2 numbers, not the 1"),
    ],
)
def test_an_embedder_of_ones_own_is_checked(vectors: Any, error: type[Exception], message: str) -> None:
    assert embed(["a", "b"], OwnEmbedder([1], numpy.ones(1))).vectors == [[1.0], [1.0]]
    with pytest.raises(error, match=message):
        embed(["a", "b"], OwnEmbedder(*vectors))


def test_an_embedder_has_vectors_of_its_own_length() -> None:
    with pytest.raises(BadRequest, match="dimensions=5: the embedder words has vectors of its own length"):
        embed("a", "words", dimensions=5)


# -- how well they separate reflections


def test_the_cases_are_cases() -> None:
    assert len(CASES) == 40
    assert len(SEEN) == len(UNSEEN) == 20
    texts = [text for case in CASES for text in (case.text, case.again, case.decoy)]
    assert len(set(texts)) == 120
    assert all(80 <= len(text) <= 250 for text in texts)


FLOORS = {
    # plain above other, plain above worded, framed above other_framed, all similar ones above all that are not
    "wordllama": (0.99, 0.80, 0.95, 0.90),
    "words": (0.97, 0.58, 0.83, 0.79),
}


@pytest.mark.parametrize("name", FLOORS)
def test_reflections_that_no_one_looked_at_are_distinguished(name: str) -> None:
    embedder = offline_embedder(name)
    assert embedder is not None
    assert [found >= floor for found, floor in zip(areas(scores(embedder, UNSEEN)), FLOORS[name], strict=True)] == [
        True
    ] * 4


def areas(found: Scores) -> tuple[float, float, float, float]:
    return (
        area(found.plain, found.other),
        area(found.plain, found.worded),
        area(found.framed, found.other_framed),
        area(found.similar, found.dissimilar),
    )


@pytest.mark.parametrize("name", FLOORS)
def test_the_page_has_the_figures(name: str) -> None:
    """The rows of the tables of docs/how-to/similarity.md, as they are measured here."""
    embedder = offline_embedder(name)
    assert embedder is not None
    reported = " | ".join(f"{found:.2f}" for found in areas(scores(embedder, UNSEEN)))
    whole = scores(embedder, CASES)
    page = PAGE.read_text(encoding="utf-8")
    assert f"| `{name}` | {reported} |" in page
    shares = [f"{100 * mean(score > bound for score in kind):.0f} %" for bound in BOUNDS for kind in kinds(whole)]
    assert f"| `{name}` | {' | '.join(shares)} |" in page


BOUNDS = (0.5, 0.6, 0.7, 0.8)


def kinds(found: Scores) -> tuple[list[float], list[float]]:
    return found.similar, found.dissimilar
