"""Embeddings through the official clients and through toolcast: the same request, and the same read of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from support.loopback import Loopback, Request, whole
from toolcast import embed

pytestmark = pytest.mark.networked

TEXTS = ["Rivers bend.", "I like chess."]
VECTORS = [[0.25, -1.0], [0.5, 0.125]]
DATA = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(VECTORS)]
LIST = {"object": "list", "data": DATA, "model": "a-model", "usage": {"prompt_tokens": 6, "total_tokens": 6}}


class Found(NamedTuple):
    """What a client read: the vectors, and the tokens if it has a field for them."""

    vectors: Any
    tokens: Any


def openai(url: str, **options: Any) -> Found:
    from openai import OpenAI

    with OpenAI(base_url=f"{url}/v1", api_key="any") as client:
        found = client.embeddings.create(model="a-model", input=TEXTS, encoding_format="float", **options)
    return Found([each.embedding for each in found.data], found.usage.prompt_tokens)


def mistral(url: str, **options: Any) -> Found:
    from mistralai.client import Mistral

    if "dimensions" in options:
        options["output_dimension"] = options.pop("dimensions")
    with Mistral(server_url=url, api_key="any") as client:
        found = client.embeddings.create(model="a-model", inputs=TEXTS, **options)
    return Found([each.embedding for each in found.data], found.usage.prompt_tokens)


TASKS = {"query": "RETRIEVAL_QUERY", "similarity": "SEMANTIC_SIMILARITY"}


def google(url: str, **options: Any) -> Found:
    from google import genai

    config: dict[str, Any] = {}
    if "dimensions" in options:
        config["output_dimensionality"] = options["dimensions"]
    if "input_type" in options:
        config["task_type"] = TASKS[options["input_type"]]
    with genai.Client(api_key="any", http_options={"base_url": url, "api_version": "v1beta"}) as client:
        found = client.models.embed_content(model="a-model", contents=TEXTS, config=config)
    return Found([each.values for each in found.embeddings], found.usage_metadata.prompt_token_count)


def vertex(model: str) -> Callable[..., Found]:
    """Return the client of Vertex AI. An embedding has its own count of tokens with `predict` alone."""

    def embed_content(url: str, **options: Any) -> Found:
        from google import genai
        from google.oauth2.credentials import Credentials

        config: dict[str, Any] = {"auto_truncate": options.get("truncate", False)}
        if "dimensions" in options:
            config["output_dimensionality"] = options["dimensions"]
        if "input_type" in options:
            config["task_type"] = TASKS[options["input_type"]]
        http = {"base_url": url, "api_version": "v1"}
        client = genai.Client(
            vertexai=True, project="p", location="l", credentials=Credentials("any"), http_options=http
        )
        with client:
            found = client.models.embed_content(model=model, contents=TEXTS, config=config)
        return Found([each.values for each in found.embeddings], 6)

    return embed_content


VERTEX = "/v1/projects/p/locations/l/publishers/google"


def ollama(url: str, **options: Any) -> Found:
    from ollama import Client

    with Client(host=url) as client:
        found = client.embed(model="a-model", input=TEXTS, **options)
    return Found([list(vector) for vector in found.embeddings], found.prompt_eval_count)


def cohere(url: str, **options: Any) -> Found:
    import httpx
    from cohere import ClientV2

    dimensions = {"output_dimension": options["dimensions"]} if "dimensions" in options else {}
    wanted = {"input_type": f"search_{options.get('input_type', 'document')}", **dimensions}
    cut = "END" if options.get("truncate") else "NONE"
    with httpx.Client() as http:  # of which it closes none of its own
        client = ClientV2(api_key="any", base_url=url, httpx_client=http)
        found = client.embed(model="a-model", texts=TEXTS, embedding_types=["float"], truncate=cut, **wanted)
    return Found(found.embeddings.float_, found.meta.billed_units.input_tokens)


Client = tuple[str, Callable[..., Found], str, Any, tuple[dict[str, Any], ...]]
CLIENTS: list[Client] = [
    ("openai", openai, "/v1", LIST, ({}, {"dimensions": 2})),
    ("mistral", mistral, "/v1", {"id": "1", **LIST}, ({}, {"dimensions": 2})),
    (
        "google",
        google,
        "",
        {"embeddings": [{"values": vector} for vector in VECTORS], "usageMetadata": {"promptTokenCount": 6}},
        ({}, {"dimensions": 2}, {"input_type": "query"}, {"input_type": "similarity", "dimensions": 2}),
    ),
    (
        "google:gemini-embedding-001",
        vertex("gemini-embedding-001"),
        VERTEX,
        {"embeddings": [{"values": vector} for vector in VECTORS], "usageMetadata": {"promptTokenCount": 6}},
        ({}, {"dimensions": 2, "truncate": True}, {"input_type": "query"}),
    ),
    (
        "google:text-embedding-005",
        vertex("text-embedding-005"),
        VERTEX,
        {"predictions": [{"embeddings": {"values": vector, "statistics": {"token_count": 3.0}}} for vector in VECTORS]},
        ({}, {"dimensions": 2, "truncate": True}, {"input_type": "query"}),
    ),
    (
        "ollama",
        ollama,
        "",
        {"model": "a-model", "embeddings": VECTORS, "prompt_eval_count": 6},
        ({}, {"dimensions": 2}, {"truncate": True}),
    ),
    (
        "cohere",
        cohere,
        "",
        {
            "id": "1",
            "embeddings": {"float": VECTORS},
            "texts": TEXTS,
            "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 6}},
        },
        ({}, {"dimensions": 2}, {"input_type": "query"}, {"truncate": True}),
    ),
]
CASES = [(client, options) for client in CLIENTS for options in client[4]]


def meant(request: Request) -> Any:
    """Return the path of a request, and its body without the fields that repeat a default."""
    path = request.line.split()[1].partition("?")[0]
    body = {name: value for name, value in json.loads(request.body).items() if name != "encoding_format" and value}
    for each in body.get("requests", ()):
        each["content"].pop("role", None)
    return path, body


@pytest.mark.parametrize(
    ("client", "options"), CASES, ids=lambda part: part[0] if isinstance(part, tuple) else "-".join(part) or "plain"
)
def test_embeddings(client: Client, options: dict[str, Any]) -> None:
    provider, official, path, answer, _ = client
    with Loopback() as server:
        url = f"http://127.0.0.1:{server.port}"
        for _ in range(2):
            server.answer(whole(json.dumps(answer).encode(), 200, "content-type: application/json"))
        theirs = official(url, **options)
        name = provider if ":" in provider else f"{provider}:a-model"
        ours = embed(TEXTS, name, base_url=url + path, api_key="any", **options)
        assert ours.vectors == theirs.vectors == VECTORS
        assert ours.usage.input_tokens == theirs.tokens == 6
        first, second = map(meant, server.requests)
        assert second == first
