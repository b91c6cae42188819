"""Choice of the LLM for a command or an experiment: by name, by Ollama's environment variables, or the embedded one.

A name is `provider:model`, as for `toolcast.llm`, the path of a `.gguf` file, which runs locally, the short name of a
model that was pulled with `toolcast pull`, or a model of Ollama.
Ollama's names have colons too, so after an unknown provider only a suffix in the form of a tag (`qwen3:8b`) makes one
of those; anything else is more likely a typo, and an error. So are `gpt-4o`, a model that only its vendor serves, and
`openai/gpt-4o`, as other libraries write it. `host` and `token` are the service's URL and key. An Ollama host without a
scheme is http for this machine, and https for any other, so that no token is sent unencrypted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from ..errors import BadRequest, UnsupportedLLMError
from ..providers.model_features import provider_of
from ..providers.ollama.adapter import ollama_url
from ..values.credentials import SecretURL
from .function_calling_llm import FunctionCallingLLM
from .local.llama_cpp import LlamaCpp
from .local.pulled import is_pulled
from .named_llms import llm, providers, unknown_llm, with_colon
from .vendors.cohere_mistral_ollama import Ollama

OLLAMA_MODEL = "gpt-oss"
"""The default model of Ollama."""


_TAG: Final = re.compile(
    r"(?:latest|cloud|[ve]?\d+(?:\.\d+)*[bmkt]?|\d+x\d+b|i?q\d|fp\d+|bf16)(?:[-_.].*)?", re.IGNORECASE
)
"""The tags of Ollama's library: sizes, versions, quantizations."""
_HUBS: Final = ("hf.co/", "huggingface.co/")
"""The hubs that Ollama downloads models from; their names may end in `.gguf` too."""
_CLOSED: Final = ("anthropic", "google", "openai")
"""The providers of models without weights that Ollama could have, Gemma excepted."""


def choose_llm(
    model: str | None = None,
    host: str | None = None,
    token: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> FunctionCallingLLM:
    """Return the LLM that the options name, or else the environment variables of Ollama, or else the embedded one.

    Raises `UnsupportedLLMError` or `BadRequest` for options that fit no LLM.
    """
    provider, name = split_provider(model) if model else ("", environ.get("OLLAMA_MODEL", ""))
    if provider == "local":
        return _embedded(name, host, token)
    if provider not in ("", "ollama"):
        return llm(f"{provider}:{name}" if name else provider, base_url=host and _service_url(host), api_key=token)
    host, token = host or environ.get("OLLAMA_HOST"), token or environ.get("OLLAMA_API_KEY")
    if not (provider or name or host or token):
        return LlamaCpp()
    return Ollama(name or OLLAMA_MODEL, base_url=ollama_address(host or ""), api_key=token)


def choose_chat_llm(model: str | None = None, host: str | None = None, token: str | None = None) -> FunctionCallingLLM:
    """Return the LLM that `chosen` gives, or, for an embedded one that `toolcast pull` fetches, its guided form."""
    from .local.guided import GuidedLlamaCpp
    from .local.weights import WEIGHTS

    made = choose_llm(model, host, token)
    return GuidedLlamaCpp(made.model) if isinstance(made, LlamaCpp) and made.model in WEIGHTS else made


def split_provider(model: str) -> tuple[str, str]:
    """Return the provider of a name, and the provider's name of the model.

    Raise `UnsupportedLLMError` for an unknown provider.
    """
    provider, colon, name = model.partition(":")
    if provider in providers():
        return provider, name
    if model.lower().endswith(".gguf") and not model.startswith(_HUBS):
        return "local", model
    if not colon and is_pulled(model):
        return "local", model
    if not colon and _is_elsewhere(model):
        raise unknown_llm(model)
    if not colon or "/" in provider or _TAG.fullmatch(name):
        return "ollama", model
    raise unknown_llm(model)


def _is_elsewhere(model: str) -> bool:
    """Return whether a name without a colon is no name of Ollama: `gpt-4o`, or `openai/gpt-4o` as others write it."""
    return with_colon(model) is not None or (provider_of(model) in _CLOSED and not model.startswith("gemma"))


def ollama_address(host: str) -> str:
    """Return the URL of the Ollama at `host`: without a scheme, http for this machine and https for any other."""
    host = host.strip()
    try:
        return ollama_url(host if "://" in host or is_this_machine(host) else f"https://{host}")
    except ValueError as error:
        raise BadRequest(f"{SecretURL(host).shown!r} is not a host: write name, name:port or a URL") from error


def _service_url(host: str) -> str:
    """Return the URL of a service at `host`: without a scheme, http for this machine and https for any other."""
    host = host.strip()
    if "://" in host:
        return host
    try:
        scheme = "http" if is_this_machine(host) else "https"
    except ValueError:
        return host  # which is no address, as the error of the request reports
    return f"{scheme}://{'localhost' if host.startswith(':') else ''}{host}"


def _embedded(model: str, host: str | None, token: str | None) -> FunctionCallingLLM:
    if host or token:
        raise UnsupportedLLMError("the embedded model has no host and no token: leave them out, or name another model")
    return LlamaCpp(model or "smollm2")


def is_this_machine(host: str) -> bool:
    """Return whether `host` is this machine: `localhost`, a loopback or wildcard address, only a port, or empty."""
    bare = host if host.startswith("[") or host.count(":") < 2 else f"[{host}]"
    name = urlsplit(f"//{bare}").hostname or "localhost"
    try:
        found = ip_address(name)
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
    return found.is_loopback or found.is_unspecified
