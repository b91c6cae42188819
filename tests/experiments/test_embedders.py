"""The embedders that compare reflections, by their names, and those of services."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from support.loopback import Loopback, whole
from toolcast import Timeouts
from toolcast.experiments.embedders import (
    EndpointEmbedder,
    SentenceTransformersEmbedder,
    WordLlamaEmbedder,
    WordsEmbedder,
    embedder_of,
)
from toolcast.experiments.similarity import SimilarityMonitor
from toolcast.llms.client import client_of
from toolcast.llms.embeddings.offline import LONGEST


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as running:
        yield running


def made(server: Loopback, provider: str = "openai") -> EndpointEmbedder:
    url = f"http://127.0.0.1:{server.port}{'' if provider == 'ollama' else '/v1'}"
    return EndpointEmbedder(provider, "a-model", base_url=url, api_key="any", max_retries=0)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("wordllama", WordLlamaEmbedder),
        ("words", WordsEmbedder),
        (" words ", WordsEmbedder),
        ("sentence-transformers:all-MiniLM-L6-v2", SentenceTransformersEmbedder),
        ("openai:text-embedding-3-small", EndpointEmbedder),
        ("ollama:nomic-embed-text:v1.5", EndpointEmbedder),
        ("google:gemini-embedding-001", EndpointEmbedder),
        ("mistral:mistral-embed", EndpointEmbedder),
        ("vllm:BAAI/bge-m3", EndpointEmbedder),
    ],
)
def test_an_embedder_has_the_name_by_which_it_is_found(name: str, kind: type) -> None:
    made = embedder_of(name)
    assert type(made) is kind
    assert made is not None
    assert made.name == name.strip()


def test_none_is_none() -> None:
    assert embedder_of("none") is None


@pytest.mark.parametrize("name", ["", "word2vec", "openai", "openai:", "words:big", "sentence-transformers", "acme:x"])
def test_an_unknown_name_is_answered_with_all_that_there_are(name: str) -> None:
    with pytest.raises(ValueError, match="no embedder is called") as raised:
        embedder_of(name)
    for known in (repr(name), "default", "wordllama", "words", "none", "sentence-transformers:NAME", "ollama:MODEL"):
        assert known in str(raised.value)


# -- services


def test_a_long_text_is_cut(server: Loopback) -> None:
    server.answer(whole(b'{"embeddings": [[1], [2]]}'))
    assert made(server, "ollama").embed(["x" * 30_000, "y"]) == [[1], [2]]
    body = json.loads(server.requests[0].body)
    assert ([len(text) for text in body["input"]], body["truncate"]) == ([LONGEST, 1], True)


def test_a_service_may_be_elsewhere(server: Loopback) -> None:
    embedder = embedder_of("vllm:a-model", base_url=f"http://127.0.0.1:{server.port}/v1")
    server.answer(whole(b'{"data": [{"embedding": [1]}]}'))
    assert embedder is not None
    assert embedder.embed(["one"]) == [[1]]
    assert "authorization" not in server.requests[0].headers


def test_a_comparison_does_not_wait_for_minutes(server: Loopback) -> None:
    assert client_of(made(server).llm).merge_settings(None).timeouts == Timeouts(connect=10, first_token=60, idle=60)


@pytest.mark.parametrize("backend", [None, "asyncio", "trio"])
def test_a_service_that_is_away_ends_nothing(
    backend: str | None, server: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = SimilarityMonitor(made(server))

    def check(reflection: str, cycle: int) -> Any:
        if backend is None:
            return monitor.check(reflection, cycle)
        return anyio.run(monitor.acheck, reflection, cycle, backend=backend)

    server.answer(whole(b'{"data": [{"embedding": [3, 4]}]}'))
    server.answer(whole(b"", 500))
    server.answer(whole(b'{"data": [{"embedding": [3, 4]}]}'))
    assert check("one", 1).error is None
    assert "the service failed (500)" in check("two", 2).error
    assert check("three", 3).band == "high"
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
