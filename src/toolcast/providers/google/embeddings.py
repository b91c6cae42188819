"""Embeddings of the Gemini API and of Vertex AI: `batchEmbedContents`, which has one vector for each of its requests.

Other models than Gemini's have `predict` on Vertex AI.

Sources: https://ai.google.dev/api/embeddings, https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/
text-embeddings-api, and the requests of google-genai.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from ...values.http_request import HTTPRequest
from ..batch_codec import as_mapping, objects_in, optional_count
from ..embedding_codec import EmbeddedBatch, EmbeddingCodec, EmbeddingOptions, vectors_in
from ..http_adapter import HTTPAdapter, json_body

_TASKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "document": "RETRIEVAL_DOCUMENT",
        "query": "RETRIEVAL_QUERY",
        "similarity": "SEMANTIC_SIMILARITY",
        "classification": "CLASSIFICATION",
        "clustering": "CLUSTERING",
    }
)


class GoogleEmbeddings(EmbeddingCodec):
    """The codec of `batchEmbedContents`. At most 100 texts of one request."""

    texts: int = 100
    tokens: int = 100_000

    def __init__(self, adapter: HTTPAdapter) -> None:
        self.provider: str = adapter.provider
        self._adapter = adapter

    def request(self, texts: Sequence[str], options: EmbeddingOptions) -> HTTPRequest:
        """Return the request for the vectors of `texts`."""
        model = options.model if "/" in options.model else f"models/{options.model}"
        each: dict[str, Any] = {"model": model}
        if options.input_type is not None:
            each["taskType"] = _TASKS[options.input_type]
        if options.dimensions is not None:
            each["outputDimensionality"] = options.dimensions
        each |= options.extra or {}
        body = {"requests": [{**each, "content": {"parts": [{"text": text}]}} for text in texts]}
        path = f"/{quote(model, safe='/')}:batchEmbedContents"
        return self._adapter.service_request("POST", path, body=json_body(body))

    def _read(self, found: Mapping[str, Any]) -> EmbeddedBatch:
        vectors_in(found, "embeddings")
        vectors: list[Any] = [each.get("values") for each in objects_in(found, "embeddings")]
        return EmbeddedBatch(vectors, optional_count(as_mapping(found.get("usageMetadata")), "promptTokenCount"))


class VertexEmbeddings(EmbeddingCodec):
    """The codec of Vertex AI: at most 250 texts and 20,000 tokens of one request to `predict`."""

    texts: int = 100
    tokens: int = 15_000

    def __init__(self, adapter: HTTPAdapter) -> None:
        self.provider: str = adapter.provider
        self._adapter = adapter

    def request(self, texts: Sequence[str], options: EmbeddingOptions) -> HTTPRequest:
        """Return the request for the vectors of `texts`."""
        model = options.model if "/" in options.model else f"models/{options.model}"
        task = None if options.input_type is None else _TASKS[options.input_type]
        # The default of `autoTruncate` cuts the text.
        config: dict[str, Any] = {"autoTruncate": options.truncate}
        if options.dimensions is not None:
            config["outputDimensionality"] = options.dimensions
        config |= options.extra or {}
        if "gemini" in model:
            config = {**({"taskType": task} if task else {}), **config}
            each = [{"content": {"parts": [{"text": text}]}, "embedContentConfig": config} for text in texts]
            return self._adapter.post(f"/{quote(model, safe='/@')}:batchEmbedContents", {"requests": each})
        instances = [{"content": text, **({"task_type": task} if task else {})} for text in texts]
        body = {"instances": instances, "parameters": config}
        return self._adapter.post(f"/{quote(model, safe='/@')}:predict", body)

    def _read(self, found: Mapping[str, Any]) -> EmbeddedBatch:
        if "predictions" not in found:
            vectors_in(found, "embeddings")
            vectors: list[Any] = [each.get("values") for each in objects_in(found, "embeddings")]
            return EmbeddedBatch(vectors, optional_count(as_mapping(found.get("usageMetadata")), "promptTokenCount"))
        vectors_in(found, "predictions")
        embedded = [as_mapping(each.get("embeddings")) for each in objects_in(found, "predictions")]
        counts = [as_mapping(each.get("statistics")).get("token_count") for each in embedded]
        known = [int(count) for count in counts if isinstance(count, (int, float))]  # documented as a float
        tokens = sum(known) if len(known) == len(counts) else None
        return EmbeddedBatch([each.get("values") for each in embedded], tokens)
