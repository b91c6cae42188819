"""Which model a command or an experiment speaks to: the one that is named, or else what Ollama's environment
variables name, or else the embedded one.

A name is `provider:model`, as `toolcast.llm` takes it; one without a provider that is known is a model of Ollama,
whose own names have colons too. `host` and `token` are the service's address and key. A host of Ollama without a
scheme is asked over http where it is this machine, and over https anywhere else: a token must not travel in the open.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from .errors import BadRequest, UnsupportedLLMError
from .llms import FunctionCallingLLM
from .providers.ollama import ollama_url
from .ready_made import LlamaCpp, Ollama, llm, providers

OLLAMA_MODEL = "gpt-oss"
"""The model that Ollama is asked for where none is named."""


def chosen(
    model: str | None = None,
    host: str | None = None,
    token: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> FunctionCallingLLM:
    """The LLM that the options name, or else `OLLAMA_HOST`, `OLLAMA_MODEL` and `OLLAMA_API_KEY`, or the embedded one.

    Raises `UnsupportedLLMError` or `BadRequest` for options that fit no LLM.
    """
    provider, _, rest = (model or "").partition(":")
    if provider == "local":
        return _embedded(rest, host, token)
    if provider in providers() and provider != "ollama":
        return llm(model or "", base_url=host, api_key=token)
    model = rest if provider == "ollama" else model or environ.get("OLLAMA_MODEL")
    host, token = host or environ.get("OLLAMA_HOST"), token or environ.get("OLLAMA_API_KEY")
    if not (provider or model or host or token):
        return LlamaCpp()
    return Ollama(model or OLLAMA_MODEL, base_url=address(host or ""), api_key=token)


def address(host: str) -> str:
    """The URL of the Ollama at `host`: http for this machine, https for any other; a scheme that it has is kept."""
    host = host.strip()
    try:
        return ollama_url(host if "://" in host or _is_here(host) else f"https://{host}")
    except ValueError as error:
        raise BadRequest(f"{host!r} is no host: write name, name:port or a URL") from error


def _embedded(model: str, host: str | None, token: str | None) -> FunctionCallingLLM:
    if host or token:
        raise UnsupportedLLMError("the embedded model has no host and no token: leave them out, or name another model")
    return LlamaCpp(model or "smollm2")


def _is_here(host: str) -> bool:
    """Whether `host` means this machine: `localhost`, a loopback address, one to listen on, a mere port, nothing."""
    bare = host if host.startswith("[") or host.count(":") < 2 else f"[{host}]"
    name = urlsplit(f"//{bare}").hostname or "localhost"
    try:
        found = ip_address(name)
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
    return found.is_loopback or found.is_unspecified
