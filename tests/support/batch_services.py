"""The doubles of all batch APIs by name, each with an LLM that sends its requests there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from support.anthropic_batches import KEY as ANTHROPIC_KEY, AnthropicBatches
from support.batch_double import BatchDouble
from support.google_batches import KEY as GOOGLE_KEY, GoogleBatches
from support.mistral_batches import KEY as MISTRAL_KEY, MistralBatches
from toolcast import Anthropic, Google, Mistral
from toolcast.llms.http_llm import ServiceLLM


class BatchService(NamedTuple):
    """A double of a service, and an LLM of it: `llm(url, **options)`."""

    double: Callable[[], BatchDouble]
    llm: Callable[..., ServiceLLM]


def anthropic(url: str, **options: Any) -> ServiceLLM:
    """Return an LLM that sends its requests to a double at `url`."""
    return Anthropic("claude-sonnet-4-6", base_url=url, api_key=ANTHROPIC_KEY, **options)


def google(url: str, **options: Any) -> ServiceLLM:
    """Return an LLM that sends its requests to a double at `url`."""
    return Google("gemini-2.5-flash", base_url=url, api_key=GOOGLE_KEY, **options)


def mistral(url: str, **options: Any) -> ServiceLLM:
    """Return an LLM that sends its requests to a double at `url`."""
    return Mistral("mistral-small-latest", base_url=f"{url}/v1", api_key=MISTRAL_KEY, **options)


SERVICES = {
    "anthropic": BatchService(AnthropicBatches, anthropic),
    "google": BatchService(GoogleBatches, google),
    "mistral": BatchService(MistralBatches, mistral),
}
