"""Embeddings from services: what is sent to which address with which key, what is read of the answer, what fails."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from servers.aimock_server import Aimock
from support.loopback import HOLD, RESET, Loopback, head, whole
from toolcast import AuthFailed, BadRequest, LLMError, NotFound, RateLimited, Timeout, UnsupportedLLMError
from toolcast.errors import LimitExceeded, MalformedEvent
from toolcast.experiments import embedding_endpoints
from toolcast.experiments.embedders import embedder_of
from toolcast.experiments.embedding_endpoints import PROVIDERS, EndpointEmbedder
from toolcast.experiments.similarity import LONGEST, SimilarityMonitor
from toolcast.http_request import HTTPRequest
from toolcast.testing import record, replay

if TYPE_CHECKING:
    from llmock.pytest_plugin import LLMock

KEY = "sk-1234567890abcdef"


class StillClock:
    """A clock that waits for nothing, and keeps how long it should have."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def now(self) -> float:
        return 0.0

    def time(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def asleep(self, seconds: float) -> None:
        raise AssertionError("it blocks")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """A server, and an environment without keys."""
    for name in ("OPENAI", "GOOGLE", "GEMINI", "MISTRAL", "OLLAMA", "VLLM"):
        for what in ("API_KEY", "BASE_URL", "HOST", "ORG_ID", "PROJECT_ID"):
            monkeypatch.delenv(f"{name}_{what}", raising=False)
    monkeypatch.delenv("GOOGLE_GEMINI_BASE_URL", raising=False)
    with Loopback() as running:
        yield running


def root(server: Loopback) -> str:
    return f"http://127.0.0.1:{server.port}"


def made(server: Loopback, provider: str = "openai", **options: Any) -> EndpointEmbedder:
    options = {"base_url": f"{root(server)}/v1", "api_key": KEY, **options}
    embedder = EndpointEmbedder(provider, "a-model", **options)
    embedder.clock = StillClock()
    return embedder


def answer(server: Loopback, content: Any, status: int = 200, *headers: str) -> None:
    server.answer(whole(json.dumps(content).encode(), status, "content-type: application/json", *headers))


def openai(*vectors: Any) -> Any:
    return {"data": [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]}


def sent(server: Loopback, at: int = -1) -> Any:
    return json.loads(server.requests[at].body)


# -- the three forms

FORMS: list[tuple[str, str, str, Mapping[str, str], Any, Any]] = [
    (
        "openai",
        "/v1",
        "/v1/embeddings",
        {"authorization": f"Bearer {KEY}"},
        {"model": "a-model", "input": ["one", "two"]},
        {"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}], "model": "a-model"},
    ),
    (
        "mistral",
        "/v1/",
        "/v1/embeddings",
        {"authorization": f"Bearer {KEY}"},
        {"model": "a-model", "input": ["one", "two"]},
        {"data": [{"embedding": [1, 0]}, {"embedding": [0, 1]}]},
    ),
    (
        "openai-compatible",
        "/v1/embeddings",
        "/v1/embeddings",
        {"authorization": f"Bearer {KEY}"},
        {"model": "a-model", "input": ["one", "two"]},
        openai([1, 0], [0, 1]),
    ),
    (
        "ollama",
        "",
        "/api/embed",
        {"authorization": f"Bearer {KEY}"},
        {"model": "a-model", "input": ["one", "two"]},
        {"model": "a-model", "embeddings": [[1, 0], [0, 1]]},
    ),
    (
        "google",
        "",
        "/v1beta/models/a-model:batchEmbedContents",
        {"x-goog-api-key": KEY},
        {"requests": [{"model": "models/a-model", "content": {"parts": [{"text": text}]}} for text in ("one", "two")]},
        {"embeddings": [{"values": [1, 0]}, {"values": [0, 1]}]},
    ),
    (
        "gemini",
        "/v1",
        "/v1/models/a-model:batchEmbedContents",
        {"x-goog-api-key": KEY},
        {"requests": [{"model": "models/a-model", "content": {"parts": [{"text": text}]}} for text in ("one", "two")]},
        {"embeddings": [{"values": [1, 0]}, {"values": [0, 1]}]},
    ),
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[0])
def test_each_form(form: tuple[str, str, str, Mapping[str, str], Any, Any], server: Loopback) -> None:
    provider, base, path, headers, body, reply = form
    answer(server, reply)
    found = made(server, provider, base_url=root(server) + base).embed(["one", "two"])
    assert found == [[1, 0], [0, 1]]
    (request,) = server.requests
    assert request.line == f"POST {path} HTTP/1.1"
    assert headers.items() <= request.headers.items()
    assert request.headers["content-type"] == "application/json"
    assert sent(server) == body


def test_a_model_of_google_may_be_a_tuned_one(server: Loopback) -> None:
    answer(server, {"embeddings": [{"values": [1]}]})
    EndpointEmbedder("google", "tunedModels/mine", base_url=root(server), api_key=KEY).embed(["one"])
    assert server.requests[0].line.startswith("POST /v1beta/tunedModels/mine:batchEmbedContents ")
    assert sent(server)["requests"][0]["model"] == "tunedModels/mine"


@pytest.mark.parametrize(
    ("provider", "environ"),
    [
        ("openai", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{root}/v1", "OPENAI_ORG_ID": "org-1"}),
        ("openai-compatible", {"OPENAI_COMPATIBLE_API_KEY": KEY, "OPENAI_COMPATIBLE_BASE_URL": "{root}"}),
        ("mistral", {"MISTRAL_API_KEY": KEY, "MISTRAL_BASE_URL": "{root}/v1"}),
        ("google", {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": "{root}"}),
        ("ollama", {"OLLAMA_HOST": "{root}", "OLLAMA_API_KEY": KEY}),
    ],
)
def test_address_and_key_are_read_from_the_environment(
    provider: str, environ: dict[str, str], server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = embedder_of(f"{provider}:a-model")
    for name, value in environ.items():
        monkeypatch.setenv(name, value.format(root=root(server)))
    answer(server, {"data": [{"embedding": [1]}], "embeddings": [{"values": [1]}] if provider == "google" else [[1]]})
    assert embedder is not None
    assert embedder.embed(["one"]) == [[1]]
    assert KEY in server.requests[0].raw.decode()
    assert server.requests[0].headers.get("openai-organization") == environ.get("OPENAI_ORG_ID")


def test_a_service_by_name_may_be_elsewhere(server: Loopback) -> None:
    embedder = embedder_of("vllm:a-model", base_url=f"{root(server)}/v1")
    answer(server, openai([1]))
    assert embedder is not None
    assert embedder.embed(["one"]) == [[1]]
    assert "authorization" not in server.requests[0].headers


def test_all_services_are_known() -> None:
    assert {"openai", "ollama", "google", "mistral", "vllm", "azure"} <= set(PROVIDERS)


# -- batches


def test_texts_go_in_batches(server: Loopback) -> None:
    for size in (64, 64, 2):
        answer(server, openai(*[[1]] * size))
    assert made(server).embed([f"text {at}" for at in range(130)]) == [[1]] * 130
    assert [len(sent(server, at)["input"]) for at in range(3)] == [64, 64, 2]
    assert sent(server, 2)["input"] == ["text 128", "text 129"]


def test_a_batch_is_no_longer_than_a_service_takes(server: Loopback) -> None:
    for size in (2, 2, 1):
        answer(server, openai(*[[1]] * size))
    made(server).embed(["x" * 50_000, *["y" * 15_000] * 4])
    assert [[len(text) for text in sent(server, at)["input"]] for at in range(3)] == [
        [LONGEST, 15_000],
        [15_000] * 2,
        [15_000],
    ]


def test_nothing_is_asked_for_nothing(server: Loopback) -> None:
    assert made(server).embed([]) == []
    assert server.requests == []


def test_half_a_character_is_sent_as_something(server: Loopback) -> None:
    answer(server, openai([1]))
    made(server).embed(["half \ud800nd"])
    assert sent(server)["input"] == ["half \ufffdnd"]


# -- what fails


def test_what_fails_in_passing_is_tried_again(server: Loopback) -> None:
    embedder = made(server)
    answer(server, {"error": {"message": "slow down"}}, 429, "retry-after: 3")
    server.answer(whole(b"", 503))
    answer(server, openai([1]))
    assert embedder.embed(["one"]) == [[1]]
    assert isinstance(embedder.clock, StillClock)
    asked, own = embedder.clock.waits
    assert 3 <= asked <= 3.5
    assert 0 <= own <= 1
    assert len(server.requests) == 3


def test_a_lost_connection_is_tried_again(server: Loopback) -> None:
    server.answer(head(200, "content-length: 100"), b'{"data"', RESET)
    answer(server, openai([1]))
    assert made(server).embed(["one"]) == [[1]]


@pytest.mark.parametrize(("retries", "requests"), [(0, 1), (2, 3)])
def test_retries_end(retries: int, requests: int, server: Loopback) -> None:
    for _ in range(5):
        answer(server, {"error": {"message": "slow down"}}, 429)
    with pytest.raises(RateLimited, match="slow down") as raised:
        made(server, max_retries=retries).embed(["one"])
    assert len(server.requests) == requests
    assert (raised.value.provider, raised.value.model) == ("openai", "a-model")


def test_what_will_not_pass_is_not_tried_again(server: Loopback) -> None:
    answer(server, {"error": 'model "a-model" not found, try pulling it first'}, 404)
    with pytest.raises(NotFound, match="try pulling it first"):
        made(server, "ollama", base_url=root(server)).embed(["one"])
    assert len(server.requests) == 1


def test_a_replay_needs_no_key(server: Loopback, tmp_path: Path) -> None:
    answer(server, openai([1.0, 0.0]))
    with record(tmp_path / "x.jsonl", mode="all"):
        assert made(server).embed(["one"]) == [[1.0, 0.0]]
    with replay(tmp_path / "x.jsonl"):
        assert made(server, api_key=None).embed(["one"]) == [[1.0, 0.0]]
    assert len(server.requests) == 1


def test_no_key_is_in_any_error(server: Loopback, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answer(server, {"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401)
    embedder = made(server)
    with pytest.raises(AuthFailed) as raised:
        embedder.embed(["one"])
    assert "OPENAI_API_KEY" in str(raised.value)
    frames = [vars(raised.value), raised.traceback, embedder.__dict__]
    assert KEY not in f"{raised.value!s} {raised.value!r} {frames!r} {caplog.text}"


@pytest.mark.parametrize(
    ("provider", "names"),
    [("openai", "OPENAI_API_KEY"), ("google", "GOOGLE_API_KEY or GEMINI_API_KEY"), ("mistral", "MISTRAL_API_KEY")],
)
def test_without_a_key_nothing_is_sent(provider: str, names: str, server: Loopback) -> None:
    with pytest.raises(AuthFailed, match=f"set {names}, or pass api_key=. Nothing was sent"):
        made(server, provider, api_key=None).embed(["one"])
    assert server.requests == []


def test_a_key_with_a_line_break_is_refused(server: Loopback) -> None:
    with pytest.raises(BadRequest, match="'authorization' has characters") as raised:
        made(server, api_key=f"{KEY}\n").embed(["one"])
    assert KEY not in str(raised.value)


def test_a_service_without_an_address_wants_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    with pytest.raises(UnsupportedLLMError, match="AZURE_OPENAI_ENDPOINT"):
        EndpointEmbedder("azure", "a-model").embed(["one"])


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"{}", b'{"data": 7}', b'{"data": [{}]}', b'{"data": ["x"]}', b'{"data": []}', b"[" * 9999],
)
def test_an_answer_without_embeddings_is_malformed(body: bytes, server: Loopback) -> None:
    server.answer(whole(body))
    with pytest.raises(MalformedEvent, match="the answer holds"):
        made(server, max_retries=0).embed(["one"])


def test_an_answer_has_an_end(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_endpoints, "_MAX_BYTES", 100)
    server.answer(whole(b" " * 10_000))
    with pytest.raises(LimitExceeded, match="more than 100 bytes"):
        made(server, max_retries=0).embed(["one"])


def test_an_answer_that_stops_is_not_waited_for_without_end(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_endpoints, "_READ", 0.05)
    server.answer(head(200, "content-length: 100"), b'{"data"', HOLD)
    with pytest.raises(Timeout, match="try again") as raised:
        made(server, max_retries=0).embed(["one"])
    assert raised.value.phase == "idle"


def test_another_network_can_be_brought(server: Loopback) -> None:
    class Refusing:
        def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Any:
            raise LLMError(f"not {request.method} {request.url}")

    with pytest.raises(LLMError, match=r"not POST http://127\.0\.0\.1:\d+/v1/embeddings") as raised:
        made(server, network=Refusing()).embed(["one"])
    assert raised.value.provider == "openai"


# -- with a monitor


@pytest.mark.parametrize("backend", [None, "asyncio", "trio"])
def test_a_service_that_is_away_ends_nothing(
    backend: str | None, server: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = SimilarityMonitor(made(server, max_retries=0))

    def check(reflection: str, cycle: int) -> Any:
        if backend is None:
            return monitor.check(reflection, cycle)
        return anyio.run(monitor.acheck, reflection, cycle, backend=backend)

    answer(server, openai([3, 4]))
    server.answer(whole(b"", 500))
    answer(server, openai([3, 4]))
    assert check("one", 1).error is None
    assert "the service failed (500)" in check("two", 2).error
    assert check("three", 3).band == "high"
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


# -- real servers


@pytest.mark.networked
@pytest.mark.parametrize("provider", ["openai", "mistral"])
def test_aimock(provider: str, aimock: Aimock) -> None:
    """Of Ollama's and Google's embeddings it has the older calls only, of one text each."""
    embedder = EndpointEmbedder(provider, "a-model", base_url=f"{aimock.url}/v1", api_key="loopback-only")
    one, two, again = embedder.embed(["Rivers bend.", "I like chess.", "Rivers bend."])
    monitor = SimilarityMonitor(embedder)
    monitor.remember([(1, "Rivers bend."), (2, "I like chess.")])
    found = monitor.check("Rivers bend.", 3)
    assert (found.score, found.cycle) == (1.0, 1)
    assert list(one) == list(again) != list(two)


@pytest.mark.networked
def test_llmock_with_a_fault(llmock: LLMock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: 0.0)
    embedder = EndpointEmbedder("openai", "text-embedding-3-small", base_url=llmock.base_url("openai"), api_key="any")
    llmock.fail(429, times=1, retry_after=0)
    one, two = embedder.embed(["Rivers bend.", "I like chess."])
    assert len(list(one)) == len(list(two)) == 1536
    assert all(math.isfinite(number) for number in one)
