"""The models that providers offer, for the choice of one: `list_models` and `check_model`.

A service's own list is asked for, with a time limit: Ollama's has the installed models, `/v1/models` those of other
services. Providers are asked at the same time, each in a thread. Without such a list there are the names in the table
of models. A provider that fails has an error in place of models, so that the others can be shown.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast

from ..async_support import sync_driver
from ..errors import AuthFailed, ConnectFailed, LLMError, MalformedEvent, NotFound, ToolcastError, UnsupportedLLMError
from ..lazy.lazy_dataclasses import dataclass
from ..llms.client import client_of
from ..llms.function_calling_llm import FunctionCallingLLM
from ..llms.http.service import service_of
from ..llms.local.llama_cpp import LlamaCpp
from ..llms.local.pulled import is_pulled, pulled_models
from ..llms.named_llms import providers
from ..providers.chat_completions.services import SERVICES
from ..providers.model_features import model_capabilities, model_rows
from ..values.credentials import read_variable
from ..values.retries import RetryPolicy
from .api_keys import choose_llm, find_key, key_variables

DEADLINE: Final = 3.0
"""Seconds to wait for the list of a provider."""

_UNLISTED: Final = frozenset(
    (
        *("gemini", "openai-responses", "openai-compatible"),
        *("azure", "azure-foundry", "azure-v1", "bedrock", "bedrock-mantle", "anthropic-vertex", "google-vertex"),
    )
)
"""Providers that are asked only by name: others have the same service, or there is no list of what one may use."""
_OPTIONAL: Final = frozenset(("vllm", "lmstudio", "llama.cpp", "litellm"))
"""Servers on this machine that are usually not running: left out if they do not answer."""
_NO_CHAT: Final = re.compile(
    r"embed|whisper|\btts|dall-e|moderation|transcribe|rerank|realtime|\bsora|\bocr|(?:gpt-|chatgpt-)?image|"
    r"babbage|davinci|guard|(?:^|/)(?:imagen|veo|aqa)",
    re.IGNORECASE,
)
"""Names of models that do not chat. Few services mark those in their lists."""
_PATHS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "ollama": ("/api/tags", {}),
    "cohere": ("/v1/models", {"endpoint": "chat", "page_size": "1000"}),
    "google": ("/models", {"pageSize": "1000"}),
    "anthropic": ("/models", {"limit": "1000"}),
}
"""The path of the list and its parameters, of services where it is not `/models`."""
_MOST: Final = 16 * 1024 * 1024
_SHOWN: Final = 6
_WORKERS: Final = 32


@dataclass(frozen=True, slots=True)
class ProviderModels:
    """The models of one provider.

    Attributes:
        provider: Its name, as before the colon of `toolcast.llm`.
        models: The names as `toolcast.llm` takes them, such as `ollama:qwen3:8b`, in alphabetical order.
        error: Why the models are missing or may be incomplete.
        is_from_service: True if the service has listed them, False if the table of this library has.
        is_set_up: False without its key or address, or if an optional server of this machine does not run.
    """

    provider: str
    models: tuple[str, ...] = ()
    error: str = ""
    is_from_service: bool = True
    is_set_up: bool = True


def list_models(
    names: Iterable[str] | None = None,
    *,
    make: Callable[[str], FunctionCallingLLM] = choose_llm,
    deadline: float = DEADLINE,
) -> list[ProviderModels]:
    """Return the models of the providers `names`, by default of all that have a key or need none.

    Args:
        names: The providers. Those that are named are in the result, even if they have no key.
        make: Returns the LLM for `provider:model`.
        deadline: The seconds after which a provider without an answer has an error.
    """
    chosen = [name for name in providers() if _may_be_set_up(name)] if names is None else list(names)
    until = time.monotonic() + deadline
    pool = ThreadPoolExecutor(_WORKERS, "toolcast-models")
    waiting = [(name, pool.submit(_models_of, name, make, deadline)) for name in chosen]
    found = [_result(name, future, max(until - time.monotonic(), 0)) for name, future in waiting]
    pool.shutdown(wait=False, cancel_futures=True)
    return [listed for listed in found if names is not None or listed.is_set_up]


def check_model(
    name: str, *, make: Callable[[str], FunctionCallingLLM] = choose_llm, deadline: float = DEADLINE
) -> FunctionCallingLLM:
    """Return the LLM of that name after asking its provider whether it has the model.

    A provider without a list of models, or that does not answer in time, is not an obstacle: the name may be right.

    Raises:
        NotFound: The provider does not have the model; the message has the nearest names.
        AuthFailed: The key is missing or wrong.
        ConnectFailed: Nothing answers at the address.
        UnsupportedLLMError: The name has no known provider.
    """
    llm = make(name)
    if isinstance(llm, LlamaCpp):
        _check_weights(llm.model)
        return llm
    provider, model = llm.metadata.provider, llm.metadata.model_name
    try:
        listed = _service_models(llm, deadline)
    except (AuthFailed, ConnectFailed):
        raise
    except ToolcastError:
        return llm
    if not listed or any(_is_same(model, each) for each in listed):
        return llm
    if provider != "ollama" and model_capabilities(provider, model).known:  # lists have no aliases
        return llm
    near = get_close_matches(model, listed, _SHOWN, 0.5) or sorted(listed)[:_SHOWN]
    fetch = f" Fetch it with `ollama pull {model}`." if provider == "ollama" else ""
    more = f" and {len(listed) - len(near):,} more" if len(listed) > len(near) else ""
    raise NotFound(f"{provider} has no model {model!r}.{fetch} It has: {', '.join(near)}{more}")


def lists_model(llm: FunctionCallingLLM, model: str, *, deadline: float = DEADLINE) -> bool:
    """Return True if the provider of `llm` lists a model of this name; False if it has no list or does not answer."""
    try:
        return any(_is_same(model, each) for each in _service_models(llm, deadline))
    except ToolcastError:
        return False


def _may_be_set_up(name: str) -> bool:
    """Return False for a provider that is not asked by default, or has no key: making its LLM is not needed then."""
    service = SERVICES.get(name)
    needs_key = name != "local" if service is None else service.needs_key
    if name in _UNLISTED or not needs_key:
        return name not in _UNLISTED
    try:
        return bool(read_variable(key_variables().get(name, ())) or find_key(f"{name}:any", None))
    except ToolcastError:  # a key is stored and cannot be read, which the list says
        return True


def _models_of(name: str, make: Callable[[str], FunctionCallingLLM], deadline: float) -> ProviderModels:
    """Return the models of a provider, or its error."""
    if name == "local":
        from ..llms.local.weights import WEIGHTS

        names = (*sorted(WEIGHTS), *(model.name for model in pulled_models()))
        return ProviderModels(name, tuple([f"local:{model}" for model in names]), is_from_service=False)
    try:
        listed = _service_models(make(f"{name}:any"), deadline)
    except UnsupportedLLMError as error:  # an address or a region is missing
        return ProviderModels(name, error=str(error), is_set_up=False)
    except AuthFailed as error:
        return ProviderModels(name, error=error.message, is_set_up=error.status is not None)
    except LLMError as error:
        return _from_table(name, error.message, is_set_up=name not in _OPTIONAL)
    except ToolcastError as error:  # a key is stored and cannot be read
        return ProviderModels(name, error=str(error))
    chatting = [f"{name}:{model}" for model in listed if not _NO_CHAT.search(model)]
    return ProviderModels(name, tuple(sorted(chatting, key=str.casefold)))


def _result(name: str, future: Future[ProviderModels], seconds: float) -> ProviderModels:
    try:
        return future.result(seconds)
    except TimeoutError:
        return _from_table(name, "no answer in time", is_set_up=name not in _OPTIONAL)


def _from_table(name: str, error: str, *, is_set_up: bool) -> ProviderModels:
    """Return the names in the library's table of models, where they are names and not patterns."""
    patterns = [pattern for row in model_rows(name) for pattern in row.models.split(", ")]
    found = {pattern for pattern in patterns if not re.search(r"[*?[]", pattern)}
    models = tuple([f"{name}:{model}" for model in sorted(found)])
    return ProviderModels(name, models, error, is_from_service=False, is_set_up=is_set_up)


def _service_models(llm: FunctionCallingLLM, deadline: float) -> list[str]:
    """Return the names in the list of the LLM's service."""
    return sync_driver.run(_fetch(llm, deadline))


async def _fetch(llm: FunctionCallingLLM, deadline: float) -> list[str]:
    backend = client_of(llm).sync_backend()
    service = await service_of(llm, backend)
    service.retry_policy = RetryPolicy(max_retries=0)
    path, query = _PATHS.get(service.adapter.provider, ("/models", {}))
    request = service.adapter.service_request("GET", path, query=query)
    response = await service.send(request, limit=_MOST, total=deadline)
    with suppress(ValueError, TypeError, LookupError, AttributeError):
        return _names(json.loads(response.body))
    # Outside of an `except`: the error of a parser contains the body.
    raise MalformedEvent(f"{request.url} has no list of models")


def _names(document: Any) -> list[str]:
    """Return the names in a list of models: `models` of Ollama, Google and Cohere, `data` of others, or a bare list."""
    rows: list[Mapping[str, Any]] = document
    if isinstance(document, dict):
        found = cast("dict[str, Any]", document)
        rows = found["data"] if "data" in found else found["models"]
    return [str(row.get("id") or row["name"]).removeprefix("models/") for row in rows if _chats(row)]


def _chats(row: Mapping[str, Any]) -> bool:
    """Return whether a model of the list chats, if the service says it: Google, Mistral, Together."""
    methods = row.get("supportedGenerationMethods")
    abilities = row.get("capabilities")
    return (
        (not isinstance(methods, list) or "generateContent" in methods)
        and (not isinstance(abilities, dict) or cast("dict[str, Any]", abilities).get("completion_chat") is not False)
        and row.get("type", "chat") in ("chat", "language", "model")
    )


def _is_same(model: str, listed: str) -> bool:
    """Return whether a name means a listed model: Ollama's need no `:latest`, routers' may have `:free` or the like."""
    return model.lower() in (listed.lower(), listed.lower().removesuffix(":latest")) or (
        "/" in model and model.partition(":")[0].lower() == listed.lower()
    )


def _check_weights(model: str) -> None:
    """Raise `NotFound` for an embedded model that is neither a file nor one that can be fetched."""
    from ..llms.local.weights import WEIGHTS

    if model not in WEIGHTS and not is_pulled(model) and not Path(os.path.expanduser(model)).is_file():
        raise NotFound(f"no model file {model!r}; expected a .gguf file or one of: {', '.join(sorted(WEIGHTS))}")
