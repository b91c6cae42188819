"""Embeddings through the official clients and through toolcast: the same request, and the same read of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.loopback import Loopback, Request, whole
from toolcast.experiments.embedders import EndpointEmbedder

pytestmark = pytest.mark.networked

TEXTS = ["Rivers bend.", "I like chess."]
VECTORS = [[0.25, -1.0], [0.5, 0.125]]
DATA = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(VECTORS)]
LIST = {"object": "list", "data": DATA, "model": "a-model", "usage": {"prompt_tokens": 6, "total_tokens": 6}}


def openai(url: str) -> Any:
    from openai import OpenAI

    with OpenAI(base_url=f"{url}/v1", api_key="any") as client:
        found = client.embeddings.create(model="a-model", input=TEXTS, encoding_format="float")
    return [each.embedding for each in found.data]


def mistral(url: str) -> Any:
    from mistralai.client import Mistral

    with Mistral(server_url=url, api_key="any") as client:
        return [each.embedding for each in client.embeddings.create(model="a-model", inputs=TEXTS).data]


def google(url: str) -> Any:
    from google import genai

    with genai.Client(api_key="any", http_options={"base_url": url, "api_version": "v1beta"}) as client:
        return [each.values for each in client.models.embed_content(model="a-model", contents=TEXTS).embeddings]


def ollama(url: str) -> Any:
    from ollama import Client

    with Client(host=url) as client:
        return [list(vector) for vector in client.embed(model="a-model", input=TEXTS).embeddings]


CLIENTS: list[tuple[str, Callable[[str], Any], str, Any]] = [
    ("openai", openai, "/v1", LIST),
    ("mistral", mistral, "/v1", {"id": "1", **LIST}),
    ("google", google, "", {"embeddings": [{"values": vector} for vector in VECTORS]}),
    ("ollama", ollama, "", {"model": "a-model", "embeddings": VECTORS}),
]


def meant(request: Request) -> Any:
    """Return the path of a request, and its body without the fields that repeat a default."""
    path = request.line.split()[1].partition("?")[0]
    body = {name: value for name, value in json.loads(request.body).items() if name != "encoding_format" and value}
    for each in body.get("requests", ()):
        each["content"].pop("role", None)
    return path, body


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client[0])
def test_embeddings(client: tuple[str, Callable[[str], Any], str, Any]) -> None:
    provider, official, path, answer = client
    with Loopback() as server:
        url = f"http://127.0.0.1:{server.port}"
        for _ in range(2):
            server.answer(whole(json.dumps(answer).encode(), 200, "content-type: application/json"))
        theirs = official(url)
        ours = EndpointEmbedder(provider, "a-model", base_url=url + path, api_key="any").embed(TEXTS)
        assert ours == theirs == VECTORS
        first, second = map(meant, server.requests)
        assert second == first
