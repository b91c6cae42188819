"""Embeddings from the HTTP endpoints of providers.

An endpoint has one of three formats: OpenAI's, which all of `toolcast.providers.chat_completions.services` and Mistral
use, Ollama's, or Google's. Address, key and the environment variables of both are those of the provider's LLMs. Texts
are sent in batches that every provider accepts. Transient failures are retried, as for a request to an LLM.

All calls block. Under an event loop, `SimilarityMonitor` runs them in a thread.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from ..async_support import sync_driver
from ..credentials import API_KEY_VARIABLES, Secret, SecretURL, missing_api_key, read_api_key
from ..errors import LLMError, MalformedEvent, ToolcastError
from ..http_request import HTTPRequest, build_request
from ..llms.service_requests import send_request
from ..providers.chat_completions import endpoints
from ..providers.chat_completions.services import SERVICES, ServiceSpec
from ..providers.google import adapter as google
from ..providers.http_adapter import Endpoint, check_header, join_url, json_member, json_object
from ..providers.http_errors import http_error
from ..providers.mistral.adapter import MISTRAL
from ..providers.ollama import adapter as ollama
from ..retries import RetryPolicy
from ..settings import Timeouts
from ..transport.httpx_network import HttpxNetwork
from ..transport.network import Clock, IOBackend, Network, SystemClock, is_sent_to, sync_backend
from ..transport.transport_errors import scrub_exception
from .similarity import LONGEST, Vector

PROVIDERS: Final = tuple(sorted({*SERVICES, "google", "gemini", "mistral", "ollama"}))
"""The provider names of `PROVIDER:MODEL`."""

_BATCH_TEXTS, _BATCH_CHARS = 64, 40_000  # about 10,000 tokens; Mistral takes 16,000
_CONNECT, _READ = 10.0, 60.0  # seconds
_MAX_BYTES = 64 * 1024 * 1024  # bytes of an answer


class EndpointEmbedder:
    """An embedder that calls an embedding model of a provider.

    `base_url` and `api_key` take precedence over the environment, which is read on first use. Raises `LLMError`.
    """

    def __init__(
        self,
        provider: str,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        max_retries: int = 2,
        network: Network | None = None,
    ) -> None:
        self.name: str = f"{provider}:{model}"
        self.retry_policy: RetryPolicy = RetryPolicy(max_retries)
        self.clock: Clock = SystemClock()
        self._provider = provider
        self.model: str = model
        self._address = SecretURL(base_url) if base_url else None
        self._key = Secret(api_key) if api_key else None
        del base_url, api_key  # no frame of a traceback may hold a key
        self._network: Network = network or HttpxNetwork()
        self._service: _EmbeddingService | None = None

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text, of which the first 20,000 characters are sent."""
        return [vector for batch in _batches(texts) for vector in self._vectors(batch)]

    def _vectors(self, texts: list[str]) -> list[Vector]:
        """Return the vectors of one batch."""
        service = self._service = self._service or self._find_service()
        request = service.request(self.model, texts)
        backend = sync_backend(self._network, self.clock)
        before = sys.exception()
        try:
            sent = send_request(_Target(service, self), request, backend, repeatable=True, limit=_MAX_BYTES)
            return service.format.vectors(sync_driver.run(sent).body, len(texts), request)
        except LLMError as error:
            error.provider, error.model = error.provider or self._provider, error.model or self.model
            scrub_exception(error, request, before)
            raise

    def _find_service(self) -> _EmbeddingService:
        url = self._address.reveal() if self._address else None
        try:
            return _service_of(self._provider, self.model, url, self._key)
        except (ToolcastError, ValueError) as error:
            error.__traceback__ = None  # its frames hold the URL and what the environment says
            raise
        finally:
            del url


class _Target:
    """The service of an embedder, as the target of requests."""

    def __init__(self, service: _EmbeddingService, embedder: EndpointEmbedder) -> None:
        self.timeouts: Timeouts = Timeouts(connect=_CONNECT, first_token=_READ, idle=_READ)
        self.retry_policy: RetryPolicy = embedder.retry_policy
        self._source = service.address.error_source(embedder.model)

    async def authorize(self, request: HTTPRequest, backend: IOBackend) -> HTTPRequest:
        """Return `request`, which has its credentials."""
        return request

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """Return the exception for a response with a status of 300 or more."""
        return http_error(status, headers, body, self._source)


class _Format(NamedTuple):
    """A request and response format of embeddings."""

    build_body: Callable[[str, list[str]], Mapping[str, Any]]
    parse: Callable[[Any], Iterable[Vector]]

    def vectors(self, body: bytes, count: int, request: HTTPRequest) -> list[Vector]:
        """Return the vectors of a response to `request`. Raises `MalformedEvent` if there are not `count` of them."""
        found: list[Vector] | None = None
        with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
            found = list(self.parse(json.loads(body)))
        if found is None:
            # Outside of an `except`: the error of a parser contains all of the body, and so perhaps the key.
            start = request.mask(body.decode("utf-8", "replace"))[:80]
            raise MalformedEvent(f"the answer holds no embeddings: it begins {start!r}")
        if len(found) != count:
            raise MalformedEvent(f"the answer holds {len(found)} embeddings for {count} texts")
        return found


class _EmbeddingService(NamedTuple):
    """The embedding endpoint of a provider, and its format."""

    address: Endpoint
    format: _Format

    def request(self, model: str, texts: list[str]) -> HTTPRequest:
        """Build the request for the vectors of `texts`."""
        body = {name: json_member(name, value) for name, value in self.format.build_body(model, texts).items()}
        headers: dict[str, str | Secret] = {"content-type": "application/json", "accept": "application/json"}
        headers |= {**self.address.headers, **self.address.auth_headers}
        for name, value in headers.items():
            check_header(name, value)
        return build_request("POST", self.address.url, headers, json_object(body))


def _service_of(provider: str, model: str, base_url: str | None, key: Secret | None) -> _EmbeddingService:
    if provider in ("google", "gemini"):
        return _google(model, base_url, key)
    if provider == "ollama":
        return _ollama(base_url, key)
    return _compatible(MISTRAL if provider == "mistral" else SERVICES[provider], model, base_url, key)


def _google(model: str, base_url: str | None, key: Secret | None) -> _EmbeddingService:
    base_url = base_url or os.environ.get("GOOGLE_GEMINI_BASE_URL") or google.BASE_URL
    version = "" if re.search(r"/v\d", urlsplit(base_url).path) else "/v1beta"
    url = join_url(base_url, f"{version}/{quote(_model_path(model), safe='/')}:batchEmbedContents")
    key = key or read_api_key(API_KEY_VARIABLES["google"])
    address = Endpoint("google", SecretURL(url), key, {}, "x-goog-api-key", API_KEY_VARIABLES["google"])
    return _EmbeddingService(_require_key(address), _GOOGLE)


def _ollama(base_url: str | None, key: Secret | None) -> _EmbeddingService:
    host = ollama.ollama_url(base_url or os.environ.get("OLLAMA_HOST", ""))
    key = key or read_api_key(API_KEY_VARIABLES["ollama"])
    return _EmbeddingService(
        Endpoint("ollama", SecretURL(join_url(host, "/api/embed")), key, {}, key_env=API_KEY_VARIABLES["ollama"]),
        _OLLAMA,
    )


def _compatible(row: ServiceSpec, model: str, base_url: str | None, key: Secret | None) -> _EmbeddingService:
    # `service_url` appends the path of chat completions only: they have the embeddings beside them.
    url = re.sub(
        r"(/embeddings)?/chat/completions", "/embeddings", endpoints.service_url(row, base_url, model, os.environ)
    )
    header, key = endpoints.read_auth_header(row, key, os.environ)
    keys = (*row.key_env, *row.bearer_env)
    address = Endpoint(row.name, SecretURL(url), key, endpoints.read_headers(row, os.environ), header, keys)
    return _EmbeddingService(_require_key(address) if row.needs_key else address, _OPENAI)


def _require_key(address: Endpoint) -> Endpoint:
    """Return `address`, which needs a key. Raises `AuthFailed` if it has none."""
    if not address.api_key and is_sent_to(address.url.shown):
        raise missing_api_key(address.provider, address.key_env)
    return address


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Split the texts, truncated to the length that all providers accept, into batches that all accept."""
    batch: list[str] = []
    size = 0
    for text in texts:
        text = text[:LONGEST]
        if batch and (len(batch) == _BATCH_TEXTS or size + len(text) > _BATCH_CHARS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def _model_path(model: str) -> str:
    return model if "/" in model else f"models/{model}"


def _google_body(model: str, texts: list[str]) -> Mapping[str, Any]:
    return {"requests": [{"model": _model_path(model), "content": {"parts": [{"text": text}]}} for text in texts]}


def _input_body(model: str, texts: list[str]) -> Mapping[str, Any]:
    return {"model": model, "input": texts}


def _parse_openai(answer: Any) -> Iterable[Vector]:
    found = list(answer["data"])
    return [each["embedding"] for each in sorted(found, key=lambda each: each.get("index", 0))]


def _parse_ollama(answer: Any) -> Iterable[Vector]:
    return list(answer["embeddings"])


def _parse_google(answer: Any) -> Iterable[Vector]:
    return [each["values"] for each in list(answer["embeddings"])]


_OPENAI = _Format(_input_body, _parse_openai)
_OLLAMA = _Format(_input_body, _parse_ollama)
_GOOGLE = _Format(_google_body, _parse_google)
