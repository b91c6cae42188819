"""The embedders that compare reflections, found by name: those without a service, and the models of services.

All calls block. Under an event loop, `SimilarityMonitor` runs them in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..llms.embeddings.embed import embed, embedding_providers
from ..llms.embeddings.offline import (
    LONGEST,
    NAMES,
    Embedder,
    SentenceTransformersEmbedder as SentenceTransformersEmbedder,
    WordLlamaEmbedder as WordLlamaEmbedder,
    WordsEmbedder as WordsEmbedder,
    offline_embedder,
)
from ..llms.function_calling_llm import FunctionCallingLLM
from ..llms.http_llm import LLMOptions
from ..llms.named_llms import llm as make_llm
from ..text.reprs import safe_repr
from ..transport.network import Network
from ..values.settings import Settings, Timeouts

_SECONDS = Timeouts(connect=10.0, first_token=60.0, idle=60.0)


def embedder_of(name: str, *, base_url: str | None = None) -> Embedder | None:
    """Return the embedder called `name`; None for `none`. Nothing is loaded or sent before its first use.

    Names are `default`, `wordllama`, `words`, `none`, `sentence-transformers:NAME`, and `PROVIDER:MODEL` for a service,
    at `base_url` if that is given. Raises `ValueError` for any other.
    """
    if name.strip() == "none":
        return None
    if (found := offline_embedder(name)) is not None:
        return found
    provider, _, model = name.strip().partition(":")
    if provider in embedding_providers() and model:
        return EndpointEmbedder(provider, model, base_url=base_url)
    known = ", ".join(f"{each}:MODEL" for each in embedding_providers())
    raise ValueError(f"no embedder is called {name!r}: write {', '.join(NAMES)}, none, or one of the services {known}")


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
        self.model: str = model
        options: LLMOptions = {"max_retries": max_retries, "network": network, "settings": Settings(timeout=_SECONDS)}
        if base_url:
            options["base_url"] = base_url
        if api_key:
            options["api_key"] = api_key
        del base_url, api_key  # no frame of a traceback may hold a key
        try:
            self.llm: FunctionCallingLLM = make_llm(self.name, **options)
        finally:
            del options

    @safe_repr
    def __repr__(self) -> str:
        return f"EndpointEmbedder({self.name!r})"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, of which the first 20,000 characters are sent."""
        return embed([text[:LONGEST] for text in texts], self.llm, truncate=True).vectors
