"""Embeddings of OpenAI, Mistral, and the services with the same endpoint.

Sources: https://platform.openai.com/docs/api-reference/embeddings/create,
https://docs.mistral.ai/api/endpoint/embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import MalformedEvent
from ...values.http_request import HTTPRequest
from ..batch_codec import as_mapping, objects_in, optional_count, optional_text
from ..embedding_codec import EmbeddedBatch, EmbeddingCodec, EmbeddingOptions, vectors_in
from ..http_adapter import HTTPAdapter, json_body
from .services import EmbeddingSpec


class OpenAIEmbeddings(EmbeddingCodec):
    """The codec of `/embeddings`.

    Args:
        adapter: The adapter of the service.
        spec: The limits of the service, and its name of `dimensions`.
        path: The path of the endpoint after `service_root`.
    """

    def __init__(self, adapter: HTTPAdapter, spec: EmbeddingSpec, path: str = "/embeddings") -> None:
        self.provider: str = adapter.provider
        self.texts: int = spec.texts
        self.tokens: int = spec.tokens
        self._adapter = adapter
        self._path = path
        self._dimensions = spec.dimensions

    def request(self, texts: Sequence[str], options: EmbeddingOptions) -> HTTPRequest:
        """Return the request for the vectors of `texts`. There are no types of input."""
        body: dict[str, Any] = {"model": options.model, "input": texts}
        if options.dimensions is not None:
            if self._dimensions is None:
                raise self.refuse("dimensions", options.dimensions, "Leave it out.")
            body[self._dimensions] = options.dimensions
        return self._adapter.service_request("POST", self._path, body=json_body({**body, **(options.extra or {})}))

    def _read(self, found: Mapping[str, Any]) -> EmbeddedBatch:
        vectors_in(found, "data")
        usage = as_mapping(found.get("usage"))
        tokens = optional_count(usage, "prompt_tokens")
        tokens = optional_count(usage, "total_tokens") if tokens is None else tokens
        vectors = [each.get("embedding") for each in _in_order(objects_in(found, "data"))]
        return EmbeddedBatch(vectors, tokens, optional_text(found, "model"))


def _in_order(found: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the embeddings by their indexes, if they have some."""
    indexes = [each.get("index") for each in found]
    if not any(index is not None for index in indexes):
        return found
    by_index = {index: each for index, each in zip(indexes, found, strict=True) if isinstance(index, int)}
    if sorted(by_index) != list(range(len(found))):
        raise MalformedEvent(
            f"the service returned {len(found)} embeddings without an index of its own for each. Send fewer texts at "
            "once, or report it to the service."
        )
    return [by_index[index] for index in range(len(found))]
