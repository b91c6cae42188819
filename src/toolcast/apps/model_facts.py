"""The facts that the server of a model lists about it, where the table of models has none: `ServedModels`.

Ollama describes a model (`/api/show`) and sizes its context when it loads it (`/api/ps`); llama.cpp's server describes
the one that it runs (`/props`); others have the size and the accepted kinds of input in the rows of their lists of
models. A server that lists nothing of the kind, or does not answer, is no error: the facts stay unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from ..async_support import sync_driver
from ..errors import Timeout, ToolcastError
from ..llms.client import client_of
from ..llms.function_calling_llm import FunctionCallingLLM
from ..llms.http.service import Service, service_of
from ..providers.http_adapter import HTTPAdapter
from ..values.capabilities import Capabilities, LLMMetadata
from ..values.http_request import HTTPRequest
from ..values.retries import RetryPolicy

_DEADLINE: Final = 3.0
"""Seconds to wait for an answer of the server."""
_LONGEST_ANSWER: Final = 16 * 1024 * 1024
_SIZES: Final = (
    *("max_model_len", "context_length", "context_window", "max_context_length", "max_context_window"),
    *("inputTokenLimit", "max_input_tokens"),
)
"""Names of the size of the context window in lists of models: of vLLM, OpenRouter, Groq, Mistral and others."""


class ServedModels:
    """The facts of models by the lists of their servers. It may be used by several threads."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Capabilities] = {}
        self._final: set[tuple[str, str]] = set()

    def metadata(self, llm: FunctionCallingLLM) -> LLMMetadata:
        """Return the metadata of an LLM with what its server has listed so far. Sends no request."""
        metadata = llm.metadata
        found = self._found.get(_key(metadata))
        if found is None:
            return metadata
        window = found.context_window if metadata.provider == "ollama" else None
        window = window or metadata.context_window or found.context_window
        capabilities = metadata.capabilities.corrected(replace(found, context_window=window))
        return replace(metadata, context_window=window, capabilities=capabilities)

    def ask(self, llm: FunctionCallingLLM, *, again: bool = False) -> LLMMetadata:
        """Ask the server of an LLM once for what is not known of its model, and return the metadata. Blocks.

        Args:
            llm: The LLM.
            again: Ask a second time if the model had not been loaded before: after its first answer it is.
        """
        metadata, key = llm.metadata, _key(llm.metadata)
        capabilities = metadata.capabilities
        is_known = None not in (metadata.context_window, capabilities.images) and metadata.provider != "ollama"
        is_asked = key in self._final or (key in self._found and not again)
        is_served = bool(getattr(llm, "has_service", False))
        if is_served and not is_known and not is_asked:
            found, is_final = Capabilities(), again
            try:
                found, is_loaded = sync_driver.run(_ask(llm))
                is_final = is_final or is_loaded
            except Timeout:  # a busy server, which is asked again
                return self.metadata(llm)
            except ToolcastError:  # no server at this address any more
                pass
            self._found[key] = self._found.get(key, Capabilities()).corrected(found)
            if is_final:
                self._final.add(key)
        return self.metadata(llm)


def _key(metadata: LLMMetadata) -> tuple[str, str]:
    return metadata.provider, metadata.model_name


async def _ask(llm: FunctionCallingLLM) -> tuple[Capabilities, bool]:
    """Return what the server lists about the model, and whether that will not change."""
    backend = client_of(llm).sync_backend()
    service = await service_of(llm, backend)
    service.retry_policy = RetryPolicy(max_retries=0)
    adapter, model = service.adapter, llm.metadata.model_name

    async def fetch(request: HTTPRequest) -> Any:
        return await _fetch(service, request)

    if llm.metadata.provider == "ollama":
        size = _loaded_size(await fetch(adapter.service_request("GET", "/api/ps")), model)
        body = json.dumps({"model": model}).encode()
        shown = _ollama_facts(await fetch(adapter.service_request("POST", "/api/show", body=body)))
        return shown.corrected(Capabilities(context_window=size)), size is not None
    facts = _row_facts(await fetch(adapter.service_request("GET", "/models")), model)
    if llm.metadata.provider == "llama.cpp":
        root = adapter.service_root.partition("?")[0].rstrip("/").removesuffix("/v1")
        facts = facts.corrected(_llama_facts(await fetch(adapter.linked_request("GET", f"{root}/props"))))
    return facts, True


async def _fetch(service: Service[HTTPAdapter], request: HTTPRequest) -> Any:
    """Return the JSON document of a response; None for an error or anything else."""
    try:
        response = await service.send(request, limit=_LONGEST_ANSWER, total=_DEADLINE)
        return json.loads(response.body)
    except Timeout:
        raise
    except (ToolcastError, ValueError):  # an old server
        return None


def _loaded_size(document: Any, model: str) -> int | None:
    """Return the size in a list of loaded models, whose names end with `:latest` where the user's have no tag."""
    rows = (row for row in _rows(document, "models") if row.get("name") in (model, f"{model}:latest"))
    return next((size for row in rows if (size := _size(row.get("context_length")))), None)


def _ollama_facts(document: Any) -> Capabilities:
    """Return the facts in the description of a model: `num_ctx` of its parameters, or else its longest context."""
    shown = _mapping(document)
    info, abilities = _mapping(shown.get("model_info")), shown.get("capabilities")
    longest = next(
        (size for name, value in info.items() if name.endswith(".context_length") and (size := _size(value))), None
    )
    lines = [line.split() for line in str(shown.get("parameters") or "").splitlines()]
    chosen = next(
        (int(line[1]) for line in lines if len(line) == 2 and line[0] == "num_ctx" and line[1].isdecimal()), None
    )
    facts = Capabilities(context_window=chosen or longest)
    if not isinstance(abilities, list):
        return facts
    named = cast("list[object]", abilities)
    return replace(facts, images="vision" in named, tools="tools" in named, thinking="thinking" in named)


def _llama_facts(document: Any) -> Capabilities:
    """Return the facts in the properties of llama.cpp's server."""
    props = _mapping(document)
    vision = _mapping(props.get("modalities")).get("vision")
    size = _size(_mapping(props.get("default_generation_settings")).get("n_ctx"))
    return Capabilities(images=vision if isinstance(vision, bool) else None, context_window=size)


def _row_facts(document: Any, model: str) -> Capabilities:
    """Return the facts in the row of a model in a list of models."""
    for row in (*_rows(document, "data"), *_rows(document, "models")):
        if model in (row.get("id"), str(row.get("name") or "").removeprefix("models/")):
            kinds = _mapping(row.get("architecture")).get("input_modalities")
            vision = _mapping(row.get("capabilities")).get("vision")
            images = "image" in cast("list[object]", kinds) if isinstance(kinds, list) else vision
            size = next((size for name in _SIZES if (size := _size(row.get(name)))), None)
            return Capabilities(images=images if isinstance(images, bool) else None, context_window=size)
    return Capabilities()


def _rows(document: Any, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list in `document`, which may be the list itself."""
    found = cast("object", document if isinstance(document, list) else _mapping(document).get(name))
    for row in cast("list[object]", found) if isinstance(found, list) else ():
        yield _mapping(row)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _size(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
