"""Embeddings of services: requests and responses of each protocol, batches, concurrency, errors, usage and cost."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from threading import Event, Timer
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

import toolcast
from servers.aimock_server import Aimock
from support.loopback import HOLD, RESET, Loopback, Piece, Request, head, whole
from toolcast import (
    FallbackLLM,
    FunctionCallingLLM,
    LlamaCpp,
    LLMError,
    OpenAI,
    OpenAICompatible,
    Prices,
    Settings,
    Timeouts,
    aembed,
    embed,
)
from toolcast.async_support.background_jobs import BackgroundJob
from toolcast.errors import (
    AuthFailed,
    BadRequest,
    LimitExceeded,
    MalformedEvent,
    NotFound,
    RateLimited,
    Timeout,
    UnsupportedLLMError,
    WouldSuspend,
)
from toolcast.llms import Embeddings
from toolcast.llms.embeddings.embed import embedding_providers
from toolcast.llms.http.service import Service
from toolcast.testing import ScriptedLLM, record, replay
from toolcast.values.http_request import HTTPRequest

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


def made(server: Loopback, provider: str = "openai", model: str = "a-model", **options: Any) -> FunctionCallingLLM:
    options = {"base_url": f"{root(server)}/v1", "api_key": KEY, **options}
    llm = toolcast.llm(f"{provider}:{model}", **options)
    llm.clock = StillClock()
    return llm


def answer(server: Loopback, content: Any, status: int = 200, *headers: str) -> None:
    server.answer(whole(json.dumps(content).encode(), status, "content-type: application/json", *headers))


def openai(*vectors: Any) -> Any:
    return {"data": [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]}


def sent(server: Loopback, at: int = -1) -> Any:
    return json.loads(server.requests[at].body)


BACKENDS = pytest.mark.parametrize("backend", [None, "asyncio", "trio"])


def run(backend: str | None, texts: Any, model: Any, **options: Any) -> Embeddings:
    """Return the embeddings by the sync function, or by the async one in an event loop."""
    if backend is None:
        return embed(texts, model, **options)
    return anyio.run(lambda: aembed(texts, model, **options), backend=backend)


# -- the forms of requests and responses

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
        {"model": "a-model", "input": ["one", "two"], "truncate": False},
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
    found = embed(["one", "two"], made(server, provider, base_url=root(server) + base))
    assert found.vectors == [[1, 0], [0, 1]]
    assert (found.dimensions, found.model) == (2, "a-model")
    (request,) = server.requests
    assert request.line == f"POST {path} HTTP/1.1"
    assert headers.items() <= request.headers.items()
    assert request.headers["content-type"] == "application/json"
    assert sent(server) == body


def test_a_model_of_google_may_be_a_tuned_one(server: Loopback) -> None:
    answer(server, {"embeddings": [{"values": [1]}]})
    embed("one", "google:tunedModels/mine", base_url=root(server), api_key=KEY)
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
    for name, value in environ.items():
        monkeypatch.setenv(name, value.format(root=root(server)))
    answer(server, {"data": [{"embedding": [1]}], "embeddings": [{"values": [1]}] if provider == "google" else [[1]]})
    assert embed("one", f"{provider}:a-model").vectors == [[1]]
    assert KEY in server.requests[0].raw.decode()
    assert server.requests[0].headers.get("openai-organization") == environ.get("OPENAI_ORG_ID")


def test_a_service_without_a_key(server: Loopback) -> None:
    answer(server, openai([1]))
    assert embed("one", "vllm:a-model", base_url=f"{root(server)}/v1").vectors == [[1]]
    assert "authorization" not in server.requests[0].headers


def test_the_providers_that_have_embeddings() -> None:
    found = embedding_providers()
    assert {"openai", "ollama", "google", "mistral", "vllm", "azure", "cohere", "llama.cpp"} <= set(found)
    assert not {"anthropic", "groq", "local", "deepseek"} & set(found)


def test_the_deployment_of_azure_is_a_part_of_the_path(server: Loopback) -> None:
    answer(server, openai([1]))
    embed("one", "azure:my-embeddings", base_url=root(server), api_key=KEY)
    assert server.requests[0].line.startswith(
        "POST /openai/deployments/my-embeddings/embeddings?api-version=2024-10-21 "
    )
    assert server.requests[0].headers["api-key"] == KEY


@BACKENDS
def test_cohere_needs_the_type_of_input(backend: str | None, server: Loopback) -> None:
    reply = {"id": "1", "embeddings": {"float": [[1, 0], [0, 1]]}, "meta": {"billed_units": {"input_tokens": 4.0}}}
    for _ in range(2):
        answer(server, reply)
    llm = made(server, "cohere", "embed-v4.0", base_url=root(server))
    found = run(backend, ["one", "two"], llm)
    assert (found.vectors, found.usage.input_tokens, found.model) == ([[1, 0], [0, 1]], 4, "embed-v4.0")
    assert server.requests[0].line == "POST /v2/embed HTTP/1.1"
    assert sent(server) == {
        "model": "embed-v4.0", "texts": ["one", "two"], "input_type": "search_document", "embedding_types": ["float"],
        "truncate": "NONE",
    }  # fmt: skip
    run(backend, ["one", "two"], llm, input_type="query", dimensions=2, truncate=True, extra={"max_tokens": 100})
    assert sent(server) == {
        "model": "embed-v4.0", "texts": ["one", "two"], "input_type": "search_query", "embedding_types": ["float"],
        "truncate": "END", "output_dimension": 2, "max_tokens": 100,
    }  # fmt: skip
    with pytest.raises(BadRequest, match=r"input_type='similarity': cohere has no such option.*Nothing was sent"):
        run(backend, ["one", "two"], llm, input_type="similarity")
    assert len(server.requests) == 2


# -- options

DIMENSIONS: list[tuple[str, str, str]] = [
    ("openai", "/v1", "dimensions"),
    ("vllm", "/v1", "dimensions"),
    ("mistral", "/v1", "output_dimension"),
    ("ollama", "", "dimensions"),
]


@pytest.mark.parametrize(("provider", "base", "field"), DIMENSIONS, ids=lambda part: part.strip("/"))
def test_dimensions(provider: str, base: str, field: str, server: Loopback) -> None:
    for vector in ([1, 2, 3], [1, 2]):
        answer(server, {**openai(vector), "embeddings": [vector]})
    llm = made(server, provider, base_url=root(server) + base)
    assert embed("one", llm, dimensions=3).dimensions == 3
    assert sent(server)[field] == 3
    with pytest.raises(MalformedEvent, match="has 2 numbers, not the 3 that were asked for"):
        embed("one", llm, dimensions=3)


def test_dimensions_that_a_server_cannot_have(server: Loopback) -> None:
    with pytest.raises(BadRequest, match=r"dimensions=3: llama\.cpp has no such option.*Nothing was sent"):
        embed("one", made(server, "llama.cpp"), dimensions=3)
    assert server.requests == []


def test_the_options_of_google_are_those_of_each_text(server: Loopback) -> None:
    answer(server, {"embeddings": [{"values": [1, 2]}, {"values": [3, 4]}], "usageMetadata": {"promptTokenCount": 7}})
    llm = made(server, "google", base_url=root(server))
    found = embed(["one", "two"], llm, dimensions=2, input_type="query", extra={"title": "T"})
    assert found.usage.input_tokens == 7
    about = {"model": "models/a-model", "taskType": "RETRIEVAL_QUERY", "outputDimensionality": 2, "title": "T"}
    assert sent(server)["requests"] == [{**about, "content": {"parts": [{"text": text}]}} for text in ("one", "two")]


VERTEX = "/v1/projects/p/locations/l/publishers/google"


def test_gemini_on_vertex(server: Loopback) -> None:
    answer(server, {"embeddings": [{"values": [1, 2]}, {"values": [3, 4]}], "usageMetadata": {"promptTokenCount": 7}})
    llm = made(server, "google", "gemini-embedding-001", base_url=root(server) + VERTEX)
    found = embed(["one", "two"], llm, dimensions=2, input_type="query", truncate=True)
    assert (found.vectors, found.usage.input_tokens) == ([[1, 2], [3, 4]], 7)
    assert server.requests[0].line == f"POST {VERTEX}/models/gemini-embedding-001:batchEmbedContents HTTP/1.1"
    config = {"taskType": "RETRIEVAL_QUERY", "outputDimensionality": 2, "autoTruncate": True}
    each = [{"content": {"parts": [{"text": text}]}, "embedContentConfig": config} for text in ("one", "two")]
    assert sent(server) == {"requests": each}
    answer(server, {"embeddings": [{"values": [1]}]})
    embed("one", llm)
    [single] = sent(server)["requests"]
    assert single["embedContentConfig"] == {"autoTruncate": False}


@pytest.mark.parametrize(("counts", "tokens"), [((3.0, 4.0), 7), ((3.0, None), 0)])
def test_other_models_on_vertex(counts: tuple[Any, Any], tokens: int, server: Loopback) -> None:
    vectors = [[1, 2], [3, 4]]
    embeddings = [{"values": v, "statistics": {"token_count": c}} for v, c in zip(vectors, counts, strict=True)]
    answer(server, {"predictions": [{"embeddings": each} for each in embeddings]})
    llm = made(server, "google", "text-embedding-005", base_url=root(server) + VERTEX)
    found = embed(["one", "two"], llm, input_type="similarity", dimensions=2, extra={"x": 1})
    assert (found.vectors, found.usage.input_tokens, found.usage.cost is None) == (vectors, tokens, True)
    assert server.requests[0].line == f"POST {VERTEX}/models/text-embedding-005:predict HTTP/1.1"
    assert sent(server) == {
        "instances": [{"content": text, "task_type": "SEMANTIC_SIMILARITY"} for text in ("one", "two")],
        "parameters": {"outputDimensionality": 2, "autoTruncate": False, "x": 1},
    }


def test_texts_are_cut_if_that_is_wanted(server: Loopback) -> None:
    answer(server, {"embeddings": [[1]]})
    embed("one", made(server, "ollama", base_url=root(server)), truncate=True)
    assert sent(server)["truncate"] is True


def test_fields_of_ones_own_are_sent(server: Loopback) -> None:
    answer(server, openai([1]))
    embed("one", made(server), extra={"user": "me"})
    assert sent(server) == {"model": "a-model", "input": ["one"], "user": "me"}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"texts": 7}, TypeError, "texts: expected str or a list of str, got int"),
        ({"texts": b"one"}, TypeError, "texts: expected str or a list of str, got bytes"),
        ({"texts": {"one": 1}}, TypeError, "texts: expected str or a list of str, got dict"),
        ({"texts": ["one", 2]}, TypeError, r"texts\[1\]: expected str, got int"),
        ({"dimensions": 0}, ValueError, "dimensions=0 must be at least 1"),
        ({"dimensions": 1.5}, TypeError, "dimensions: expected a whole number"),
        ({"truncate": "yes"}, TypeError, "truncate: expected True or False"),
        ({"input_type": "search_query"}, ValueError, "input_type='search_query': expected one of 'document', 'query'"),
        ({"model": 7}, TypeError, "model: expected a name, an LLM or an Embedder, got int"),
        ({"model": "openai"}, UnsupportedLLMError, "'openai' names no LLM"),
        ({"model": "gpt-4"}, UnsupportedLLMError, "'gpt-4' names no embedding model; write one of: default, wordllama"),
        ({"api_key": KEY}, TypeError, "api_key= belongs to the name of a service's model"),
        ({"model": "words", "api_key": KEY}, TypeError, "api_key= belongs to the name of a service's model"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], error: type[Exception], message: str, server: Loopback) -> None:
    arguments = {"texts": ["one"], "model": made(server), **options}
    with pytest.raises(error, match=message) as raised:
        embed(**arguments)
    assert KEY not in f"{raised.value!r} {raised.value!s}"
    assert server.requests == []


@pytest.mark.parametrize(
    "llm",
    [
        toolcast.llm("anthropic:claude-sonnet-4-5", api_key=KEY),
        toolcast.llm("groq:llama", api_key=KEY),
    ],
    ids=lambda llm: llm.provider,
)
def test_a_provider_without_embeddings(llm: Any) -> None:
    with pytest.raises(UnsupportedLLMError, match=r"has no embeddings\. There are some of: azure.*'words'"):
        embed("one", llm)


@pytest.mark.parametrize(
    "llm",
    [FallbackLLM([OpenAI("a", api_key=KEY)]), ScriptedLLM(), LlamaCpp("/no/such/model.gguf")],
    ids=["several", "scripted", "embedded"],
)
def test_an_llm_that_is_not_one_service(llm: FunctionCallingLLM) -> None:
    with pytest.raises(UnsupportedLLMError, match="is no LLM of one service"):
        embed("one", llm)


# -- usage and cost


def test_usage_is_the_sum_over_the_batches_and_has_a_cost(server: Loopback) -> None:
    for size in (256, 44):
        answer(server, {**openai(*[[1]] * size), "model": "a-model-2", "usage": {"prompt_tokens": size}})
    llm = made(server, prices=Prices(input=2, output=0), max_concurrency=1)
    found = embed(["one"] * 300, llm)
    assert (found.usage.input_tokens, found.usage.output_tokens) == (300, 0)
    assert found.usage.cost == Decimal("0.0006")
    assert (found.model, found.provider) == ("a-model-2", "openai")
    assert repr(found) == "Embeddings(300 vectors of 1 numbers, model='a-model-2', input_tokens=300)"


def test_the_price_list_has_embedding_models(server: Loopback) -> None:
    answer(server, {**openai([1]), "usage": {"total_tokens": 1_000_000}})
    assert embed("one", made(server, model="text-embedding-3-small")).usage.cost == Decimal("0.02")


def test_a_usage_that_is_unknown_in_part_has_no_cost(server: Loopback) -> None:
    answer(server, {**openai(*[[1]] * 256), "usage": {"prompt_tokens": 5}})
    answer(server, openai([1]))
    found = embed(["one"] * 257, made(server, prices=Prices(1, 1), max_concurrency=1))
    assert (found.usage.input_tokens, found.usage.cost) == (5, None)


# -- batches and workers


class Backwards(Loopback):
    """A service whose vectors are the texts as numbers. It answers once `count` requests have come, the last first."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._gates = [Event() for _ in range(count)]
        self._gates[-1].set()
        self._count = count

    def _pieces(self, request: Request) -> tuple[Piece, ...]:
        self.wait_requests(self._count)
        at = self.requests.index(request)
        assert self._gates[at].wait(30)
        vectors = [[float(text)] for text in json.loads(request.body)["input"]]
        if at:
            Timer(0, self._gates[at - 1].set).start()
        return (whole(json.dumps(openai(*vectors)).encode()),)


@BACKENDS
def test_the_order_is_preserved_whichever_batch_ends_first(backend: str | None, server: Loopback) -> None:
    texts = [f"{n}" for n in range(600)]
    with Backwards(3) as echo:
        found = run(backend, texts, made(echo, max_concurrency=3))
        assert found.vectors == [[float(n)] for n in range(600)]
        assert sorted(len(sent(echo, at)["input"]) for at in range(3)) == [88, 256, 256]


@BACKENDS
def test_an_error_stops_the_others(backend: str | None, server: Loopback) -> None:
    answer(server, {"error": {"message": "no such model"}}, 404)
    for _ in range(8):
        server.answer(head(200, "content-length: 100"), b'{"data"', HOLD)
    with pytest.raises(NotFound, match="no such model"):
        run(backend, ["x"] * 2_000, made(server, max_concurrency=4))
    assert 1 <= len(server.requests) <= 4


def test_ctrl_c_stops_the_workers(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = BackgroundJob.wait

    def interrupted(job: BackgroundJob, timeout: float | None = None) -> bool:
        monkeypatch.setattr(BackgroundJob, "wait", waited)
        jobs.append(job)
        server.wait_requests(1)
        raise KeyboardInterrupt

    jobs: list[BackgroundJob] = []
    monkeypatch.setattr(BackgroundJob, "wait", interrupted)
    for _ in range(4):
        server.answer(head(200, "content-length: 100"), b'{"data"', HOLD)
    with pytest.raises(KeyboardInterrupt):
        embed(["x"] * 600, made(server, max_concurrency=2))
    assert jobs[0].wait(20)


def test_the_end_of_the_program_in_a_worker() -> None:
    class Exiting:
        def open(self, request: HTTPRequest, **limits: Any) -> Any:
            raise SystemExit(3)

    network: Any = Exiting()
    with pytest.raises(SystemExit):
        embed(["x"] * 600, OpenAI("m", api_key=KEY, network=network))


def test_a_network_without_sync_calls() -> None:
    class AsyncOnly:
        async def suspend(self) -> None:
            await anyio.lowlevel.checkpoint()

        def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Any:
            raise AssertionError("not reached")

        def close(self) -> None: ...

    async def token() -> dict[str, str]:
        await anyio.lowlevel.checkpoint()
        return {"authorization": "Bearer x"}

    network: Any = AsyncOnly()
    with pytest.raises(WouldSuspend):
        embed(["x"] * 600, OpenAI("m", auth=token, network=network))


@BACKENDS
def test_the_llm_of_a_name_is_closed(backend: str | None, server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    monkeypatch.setattr(OpenAICompatible, "close", lambda llm: closed.append("close"))

    async def aclose(llm: Any) -> None:
        closed.append("aclose")

    monkeypatch.setattr(OpenAICompatible, "aclose", aclose)
    answer(server, openai([1]))
    answer(server, openai([1]))
    options = {"base_url": f"{root(server)}/v1", "api_key": KEY}
    assert run(backend, ["one"], "openai:a-model", **options).vectors == [[1]]
    assert closed == ["close" if backend is None else "aclose"]
    llm = made(server)
    run(backend, ["one"], llm)
    assert len(closed) == 1


# -- batches


def test_texts_go_in_batches(server: Loopback) -> None:
    for size in (64, 64, 2):
        answer(server, openai(*[[1]] * size))
    llm = made(server, "vllm", max_concurrency=1)
    assert embed([f"text {at}" for at in range(130)], llm).vectors == [[1]] * 130
    assert [len(sent(server, at)["input"]) for at in range(3)] == [64, 64, 2]
    assert sent(server, 2)["input"] == ["text 128", "text 129"]


def test_a_batch_is_no_longer_than_a_service_takes(server: Loopback) -> None:
    for size in (1, 2, 2):
        answer(server, openai(*[[1]] * size))
    embed(["x" * 50_000, *["y" * 15_000] * 4], made(server, "vllm", max_concurrency=1))
    assert [[len(text) for text in sent(server, at)["input"]] for at in range(3)] == [
        [50_000],
        [15_000] * 2,
        [15_000] * 2,
    ]


@BACKENDS
def test_nothing_is_sent_for_no_texts(backend: str | None, server: Loopback) -> None:
    found = run(backend, [], made(server))
    assert (found.vectors, found.dimensions, found.usage.cost) == ([], 0, None)
    assert run(backend, iter(()), "words").vectors == []
    assert server.requests == []


def test_half_a_character_is_sent_as_something(server: Loopback) -> None:
    answer(server, openai([1]))
    embed("half \ud800nd", made(server))
    assert sent(server)["input"] == ["half \ufffdnd"]


# -- what fails


def test_what_fails_in_passing_is_tried_again(server: Loopback) -> None:
    llm = made(server)
    answer(server, {"error": {"message": "slow down"}}, 429, "retry-after: 3")
    server.answer(whole(b"", 503))
    answer(server, openai([1]))
    assert embed("one", llm).vectors == [[1]]
    assert isinstance(llm.clock, StillClock)
    asked, own = llm.clock.waits
    assert 3 <= asked <= 3.5
    assert 0 <= own <= 1
    assert len(server.requests) == 3


def test_a_lost_connection_is_tried_again(server: Loopback) -> None:
    server.answer(head(200, "content-length: 100"), b'{"data"', RESET)
    answer(server, openai([1]))
    assert embed("one", made(server)).vectors == [[1]]


@pytest.mark.parametrize(("retries", "requests"), [(0, 1), (2, 3)])
def test_retries_end(retries: int, requests: int, server: Loopback) -> None:
    for _ in range(5):
        answer(server, {"error": {"message": "slow down"}}, 429)
    with pytest.raises(RateLimited, match="slow down") as raised:
        embed("one", made(server, max_retries=retries))
    assert len(server.requests) == requests
    assert (raised.value.provider, raised.value.model) == ("openai", "a-model")


def test_what_will_not_pass_is_not_tried_again(server: Loopback) -> None:
    answer(server, {"error": 'model "a-model" not found, try pulling it first'}, 404)
    with pytest.raises(NotFound, match="try pulling it first"):
        embed("one", made(server, "ollama", base_url=root(server)))
    assert len(server.requests) == 1


def test_a_replay_needs_no_key(server: Loopback, tmp_path: Path) -> None:
    answer(server, openai([1.0, 0.0]))
    with record(tmp_path / "x.jsonl", mode="all"):
        assert embed("one", made(server)).vectors == [[1.0, 0.0]]
    with replay(tmp_path / "x.jsonl"):
        assert embed("one", made(server, api_key=None)).vectors == [[1.0, 0.0]]
    assert len(server.requests) == 1


def test_no_key_is_in_any_error(server: Loopback, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answer(server, {"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401)
    llm = made(server)
    with pytest.raises(AuthFailed) as raised:
        embed("one", llm)
    assert "OPENAI_API_KEY" in str(raised.value)
    frames = [vars(raised.value), raised.traceback, llm.__dict__]
    assert KEY not in f"{raised.value!s} {raised.value!r} {frames!r} {caplog.text}"


@pytest.mark.parametrize(
    ("provider", "names"),
    [("openai", "OPENAI_API_KEY"), ("google", "GOOGLE_API_KEY or GEMINI_API_KEY"), ("mistral", "MISTRAL_API_KEY")],
)
def test_without_a_key_nothing_is_sent(provider: str, names: str, server: Loopback) -> None:
    with pytest.raises(AuthFailed, match=f"set {names}, or pass api_key=. Nothing was sent"):
        embed("one", made(server, provider, api_key=None))
    assert server.requests == []


def test_a_key_with_a_line_break_is_refused(server: Loopback) -> None:
    with pytest.raises(BadRequest, match="'authorization' has characters") as raised:
        embed("one", made(server, api_key=f"{KEY}\n"))
    assert KEY not in str(raised.value)


def test_a_service_without_an_address_wants_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    with pytest.raises(UnsupportedLLMError, match="AZURE_OPENAI_ENDPOINT"):
        embed("one", "azure:a-model")


NO_VECTORS: list[tuple[Any, str]] = [
    (b"", "0 bytes that are no JSON object"),
    (b"<html>", "no JSON object"),
    ([], "no JSON object"),
    (b"[" * 9999, "no JSON object"),
    ({}, "there is no list 'data', but: nothing"),
    ({"data": 7}, "there is no list 'data', but: data"),
    ({"data": []}, "returned 0 embeddings for 2 texts"),
    ({"data": [{"embedding": [1]}]}, "returned 1 embeddings for 2 texts"),
    ({"data": [{"embedding": [1]}] * 3}, "returned 3 embeddings for 2 texts"),
    ({"data": [{"embedding": [1]}, {}]}, "the embedding of text 1 is no list of numbers"),
    ({"data": [{"embedding": [1]}, "x"]}, "the embedding of text 1 is no list of numbers"),
    (openai([1], []), "the embedding of text 1 is no list of numbers"),
    (openai([1], "AACAPw=="), "the embedding of text 1 is no list of numbers"),
    (openai([1], [None]), "the embedding of text 1 is no list of numbers"),
    (openai([1], [True]), "the embedding of text 1 is no list of numbers"),
    (openai([1], [math.nan]), "the embedding of text 1 has numbers that are not finite"),
    (openai([1], [math.inf]), "the embedding of text 1 has numbers that are not finite"),
    (openai([1], [10**400]), "the embedding of text 1 has numbers that are not finite"),
    (openai([1], [1, 2]), "the embeddings have different lengths: 1, 2"),
    ({"data": [{"index": 0, "embedding": [1]}] * 2}, "without an index of its own for each"),
    ({"data": [{"index": at, "embedding": [1]} for at in (1, 2)]}, "without an index of its own for each"),
    ({"data": [{"index": 0, "embedding": [1]}, {"embedding": [1]}]}, "without an index of its own for each"),
]


@pytest.mark.parametrize(("body", "message"), NO_VECTORS)
@BACKENDS
def test_an_answer_without_embeddings_is_malformed(
    backend: str | None, body: Any, message: str, server: Loopback
) -> None:
    server.answer(whole(body if isinstance(body, bytes) else json.dumps(body).encode()))
    with pytest.raises(MalformedEvent, match=message) as raised:
        run(backend, ["one", "two"], made(server))
    assert (raised.value.provider, raised.value.model) == ("openai", "a-model")
    assert len(server.requests) == 1


@BACKENDS
def test_an_error_with_status_200(backend: str | None, server: Loopback) -> None:
    answer(server, {"error": {"message": f"the model is loading, {KEY}", "type": "server_error"}})
    with pytest.raises(LLMError, match="the model is loading") as raised:
        run(backend, ["one", "two"], made(server))
    assert not isinstance(raised.value, MalformedEvent)
    assert KEY not in str(raised.value)


def test_a_negative_count_of_tokens_is_unknown(server: Loopback) -> None:
    answer(server, openai([1], [2]) | {"usage": {"prompt_tokens": -7}})
    assert embed(["one", "two"], made(server)).usage.input_tokens == 0


def test_other_forms_without_vectors(server: Loopback) -> None:
    for provider in ("ollama", "google", "cohere"):
        answer(server, {"embeddings": None})
        with pytest.raises(MalformedEvent, match="there is no list 'embeddings"):
            embed("one", made(server, provider, base_url=root(server)))


def test_an_answer_has_an_end(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Service.send, "__kwdefaults__", {**Service.send.__kwdefaults__, "limit": 100})
    server.answer(whole(b" " * 10_000))
    with pytest.raises(LimitExceeded, match="more than 100 bytes"):
        embed("one", made(server, max_retries=0))


def test_an_answer_that_stops_is_not_waited_for_without_end(server: Loopback) -> None:
    server.answer(head(200, "content-length: 100"), b'{"data"', HOLD)
    settings = Settings(timeout=Timeouts(idle=0.05))
    with pytest.raises(Timeout, match=r"the response stopped for 0\.05 s") as raised:
        embed("one", made(server, max_retries=0, settings=settings))
    assert raised.value.phase == "idle"


def test_another_network_can_be_brought(server: Loopback) -> None:
    class Refusing:
        def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Any:
            raise LLMError(f"not {request.method} {request.url}")

    with pytest.raises(LLMError, match=r"not POST http://127\.0\.0\.1:\d+/v1/embeddings") as raised:
        embed("one", made(server, network=Refusing()))
    assert raised.value.provider == "openai"


# -- real servers


@pytest.mark.networked
@pytest.mark.parametrize("provider", ["openai", "mistral"])
def test_aimock(provider: str, aimock: Aimock) -> None:
    """Of Ollama's and Google's embeddings it has the older calls only, of one text each."""
    texts = ["Rivers bend.", "I like chess.", "Rivers bend."]
    found = embed(texts, f"{provider}:a-model", base_url=f"{aimock.url}/v1", api_key="loopback-only")
    one, two, again = found.vectors
    assert one == again != two


@pytest.mark.networked
def test_llmock_with_a_fault(llmock: LLMock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: 0.0)
    url = llmock.base_url("openai")
    llmock.fail(429, times=1, retry_after=0)
    found = embed(["Rivers bend.", "I like chess."], "openai:text-embedding-3-small", base_url=url, api_key="any")
    assert (found.dimensions, len(found.vectors)) == (1536, 2)
    assert found.usage.input_tokens > 0
