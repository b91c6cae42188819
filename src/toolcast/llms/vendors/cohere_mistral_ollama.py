"""The LLM classes of providers that differ from others in their address and adapter alone.

Those of OpenAI, Anthropic, Google and Bedrock have modules of their own, the embedded model is in `local/llama_cpp.py`.
"""

from __future__ import annotations

import os

from ...providers.base import ProviderAdapter
from ...values.credentials import API_KEY_VARIABLES, read_variable
from ..http_llm import ServiceLLM


class Mistral(ServiceLLM):
    """A model of Mistral AI. Reads MISTRAL_API_KEY and MISTRAL_BASE_URL."""

    provider = "mistral"

    def _required_key(self) -> tuple[str, ...]:
        return API_KEY_VARIABLES["mistral"]

    def _make_adapter(self) -> ProviderAdapter:
        from ...providers.mistral.adapter import MISTRAL, MistralAdapter

        base_url = self._given_url or read_variable(MISTRAL.url_env)
        return MistralAdapter(api_key=self.secret(*self._required_key()), base_url=base_url, headers=self._headers)


class Cohere(ServiceLLM):
    """A model of Cohere, through version 2 of its Chat API. Reads CO_API_KEY, or else COHERE_API_KEY."""

    provider = "cohere"

    def _required_key(self) -> tuple[str, ...]:
        return API_KEY_VARIABLES["cohere"]

    def _make_adapter(self) -> ProviderAdapter:
        from ...providers.cohere.adapter import CohereAdapter

        return CohereAdapter(
            api_key=self.secret(*self._required_key()), base_url=self._given_url, headers=self._headers
        )


class Ollama(ServiceLLM):
    """A model that Ollama runs. Reads OLLAMA_HOST and OLLAMA_API_KEY; on this machine without them."""

    provider = "ollama"

    def _make_adapter(self) -> ProviderAdapter:
        from ...providers.ollama.adapter import OllamaAdapter, ollama_url

        base_url = self._given_url or ollama_url(os.environ.get("OLLAMA_HOST", ""))
        return OllamaAdapter(
            api_key=self.secret(*API_KEY_VARIABLES["ollama"]), base_url=base_url, headers=self._headers
        )
