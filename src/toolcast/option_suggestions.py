"""Refusal of unknown keyword arguments, with suggestions: names in other libraries, and typing errors.

`Ollama("llama3.2", request_timeout=60, host=...)` is how a user of another library begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Final, cast

from .settings import Settings

_SETTINGS: Final = {
    **{field.name: field.name for field in fields(Settings)},
    **dict.fromkeys(("request_timeout", "timeout_seconds", "read_timeout"), "timeout"),
    **dict.fromkeys(
        ("max_output_tokens", "max_completion_tokens", "max_new_tokens", "num_predict", "maxTokens"), "max_tokens"
    ),
    **dict.fromkeys(("stop_sequences", "stop_words"), "stop"),
    **dict.fromkeys(("random_seed", "random_state"), "seed"),
    **dict.fromkeys(("reasoning", "reasoning_effort", "thinking_budget", "thinking_level", "think"), "thinking"),
    **dict.fromkeys(("top_logprobs",), "logprobs"),
    **dict.fromkeys(("serviceTier",), "service_tier"),
    **dict.fromkeys(("topP",), "top_p"),
    **dict.fromkeys(("topK",), "top_k"),
}
_BODY: Final = frozenset(
    (
        *("format", "options", "repeat_penalty", "min_p", "frequency_penalty", "n", "user"),
        *("presence_penalty", "logit_bias", "metadata", "response_format"),
    )
)
_WHOLE_BODY: Final = frozenset(("extra_body", "model_kwargs", "additional_kwargs", "generation_config", "default_body"))
_OPTIONS: Final = {
    **dict.fromkeys(("host", "url", "api_base", "base", "endpoint", "azure_endpoint", "server_url"), "base_url"),
    **dict.fromkeys(("openai_api_base", "api_url", "api_host", "baseURL"), "base_url"),
    **dict.fromkeys(("key", "token", "apikey", "apiKey", "api_token", "auth_token"), "api_key"),
    **dict.fromkeys(("openai_api_key", "anthropic_api_key", "google_api_key", "mistral_api_key"), "api_key"),
    **dict.fromkeys(("default_headers", "extra_headers", "additional_headers"), "headers"),
    **dict.fromkeys(("retries", "num_retries", "max_attempts"), "max_retries"),
    **dict.fromkeys(("http_client", "client", "async_client", "http_async_client", "transport", "proxy"), "network"),
    **dict.fromkeys(("max_concurrent_requests", "max_parallel_requests", "num_workers"), "max_concurrency"),
    **dict.fromkeys(("azure_ad_token_provider", "credential", "credentials", "token_provider"), "auth"),
    **dict.fromkeys(("n_ctx", "n_gpu_layers", "n_threads", "n_batch"), "server"),
    **dict.fromkeys(("model_path", "model_name", "model_id", "deployment", "deployment_name"), "model"),
}
_OWNERS: Final = {
    **dict.fromkeys(("api", "base_model"), "OpenAI or OpenAICompatible"),
    "service": "OpenAICompatible or OpenAIResponses",
}
_SYSTEM_PROMPTS: Final = ("system", "system_message", "system_prompt", "instructions", "system_instruction")


def refuse_unknown(owner: str, options: Mapping[str, object], known: Sequence[str]) -> None:
    """Raise `TypeError` for keyword arguments that `owner` does not accept, with a suggestion for each."""
    unknown = [name for name in options if name not in known]
    if unknown:
        cast("dict[str, object]", options).clear()  # no frame of the traceback may hold a key
        raise TypeError("; ".join(f"{owner}() takes no {name!r}{_instead(name, known)}" for name in unknown))


def _instead(name: str, known: Sequence[str]) -> str:
    if name in _SETTINGS:
        return f": pass settings=Settings({_SETTINGS[name]}=...)"
    if name in _BODY:
        return f": pass settings=Settings(extra={{{name!r}: ...}}), which goes into the request body"
    if name in _WHOLE_BODY:
        return ": pass settings=Settings(extra={...}), which goes into the request body"
    # An LLM has a system_prompt, an engine instructions.
    candidates = _SYSTEM_PROMPTS if name in _SYSTEM_PROMPTS else (_OPTIONS.get(name),)
    if found := [candidate for candidate in candidates if candidate in known]:
        return f": pass {found[0]}=..."
    if name in _OWNERS:
        return f": leave it out, or use {_OWNERS[name]}"
    from difflib import get_close_matches  # for errors alone

    close = get_close_matches(name, known, n=1)
    return f": did you mean {close[0]}=?" if close else f". It takes: {', '.join(known)}"
