"""Setup of an experiment's model: its LLM, its settings, and the check that it is available.

ContReAct names sampling options as Ollama does. Options that every provider has become `Settings`; the rest are sent to
Ollama as its `options`, and to the embedded model as far as llama.cpp has the same. Any other provider would ignore
them silently, or fail in the first cycle: there they are refused by their key. An LLM object that a program passes gets
all options, as Ollama does.

The model is checked before the first cycle, by the same code in sync and async: Ollama's by its list of models, the
embedded model by loading it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ..async_support import sync_driver
from ..errors import ConnectFailed, MalformedEvent, NotFound, StreamInterrupted, Timeout, ToolcastError
from ..llms.client import client_of
from ..llms.function_calling_llm import FunctionCallingLLM
from ..llms.http.service import service_of
from ..llms.http_llm import ServiceLLM
from ..llms.local.llama_cpp import LlamaCpp
from ..llms.model_registry import choose_llm
from ..llms.named_llms import providers
from ..llms.vendors.cohere_mistral_ollama import Ollama
from ..transport.network import IOBackend
from ..values.capabilities import Progress
from ..values.http_request import HTTPRequest
from ..values.retries import RetryPolicy
from ..values.settings import Settings, Timeouts
from .config_errors import NOWHERE, UnknownKey, error_of, problem_at
from .experiment_config import ExperimentConfig, ModelOptions

LLAMA_CPP_OPTIONS: Final = frozenset(
    (
        *("repeat_last_n", "repeat_penalty", "min_p", "typical_p", "presence_penalty", "frequency_penalty"),
        *("mirostat", "mirostat_tau", "mirostat_eta"),
    )
)
"""The options that llama.cpp takes under the same name as Ollama."""

_SHOWN = 8
"""The maximum of model names in an error message."""


class ServerNotFound(ToolcastError, ConnectionError):
    """The error that Ollama does not respond at its address."""


class ModelNotFoundError(ToolcastError, LookupError):
    """The error that Ollama does not have the model. `model` is its name."""

    def __init__(self, message: str = "", model: str = "") -> None:
        super().__init__(message)
        self.model = model


def build_llm(config: ExperimentConfig, *, host: str | None = None, token: str | None = None) -> FunctionCallingLLM:
    """Create the LLM of an experiment. `host` and `token` take precedence over configuration and environment.

    Raises `UnsupportedLLMError` or `BadRequest` for a name, a host or a token that fits no LLM.
    """
    if config.asks_ollama:
        model = config.model_name.removeprefix("ollama:")
        return choose_llm(f"ollama:{model}", host or config.ollama_client_config.host, token)
    llm = choose_llm(config.model_name, host, token)
    if isinstance(llm, LlamaCpp) and config.model_options.num_ctx is not None:
        from ..llms.local.llama_server import ServerOptions

        return LlamaCpp(llm.model, server=ServerOptions(context=config.model_options.num_ctx))
    return llm


def settings_of(config: ExperimentConfig, llm: FunctionCallingLLM) -> Settings:
    """Return the settings of this experiment for `llm`.

    Raises `UnknownKey` for options that its provider does not have.
    """
    options = config.model_options
    limit = options.num_predict or -1
    return Settings(
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        max_tokens=limit if limit > 0 else None,
        stop=options.stop,
        seed=options.seed,
        extra=_extra(_others(options), llm),
    )


def check_model(llm: FunctionCallingLLM, progress: Progress | None = None) -> None:
    """Check that the model is available, and load it if it is an embedded one.

    `progress(done, total)` gets the download progress of the weights, in bytes. Raises `ServerNotFound` if Ollama does
    not respond, `ModelNotFoundError` if it does not have the model, and any error of loading. Providers without a list
    of models are not checked.
    """
    sync_driver.run(_check(llm, client_of(llm).sync_backend(), progress))


async def acheck_model(llm: FunctionCallingLLM, progress: Progress | None = None) -> None:
    """Check that the model is available; see `check_model`."""
    await _check(llm, client_of(llm).async_backend(), progress)


def check_setup(llm: FunctionCallingLLM) -> None:
    """Check what can be checked of a model that is needed later: nothing is generated, loaded or downloaded.

    Raises `ServerNotFound` or `ModelNotFoundError` for a model of Ollama, `AuthFailed` for a service whose key is
    missing, and `ImportError` or `NotFound` for an embedded model without its extra or its file.
    """
    if isinstance(llm, Ollama):
        check_model(llm)
    elif isinstance(llm, LlamaCpp):
        _check_embedded(llm.model)
    elif isinstance(llm, ServiceLLM):
        request = client_of(llm).build_request("?", (), None, None, parallel=False)
        sync_driver.run(
            llm.prepare(request.conversation(llm.model, client_of(llm).mode(request)), client_of(llm).sync_backend())
        )


def _check_embedded(model: str) -> None:
    from ..llms.local.llama_server import check_file
    from ..llms.local.pulled import pulled_path
    from ..llms.local.weights import WEIGHTS

    if model not in WEIGHTS:
        check_file(pulled_path(model) or Path(model))
    if find_spec("xllamacpp") is None:
        raise ImportError("the embedded model needs xllamacpp: pip install 'toolcast[local]'", name="xllamacpp")


def _others(options: ModelOptions) -> dict[str, Any]:
    """Return the options that are not part of `Settings`."""
    named = options.model_dump(include={"repeat_last_n", "repeat_penalty", "num_ctx"}, exclude_none=True)
    filled = {"num_predict": -2} if options.num_predict == -2 else {}  # until the context is full: Ollama's own
    return named | filled | (options.model_extra or {})


def _extra(others: Mapping[str, Any], llm: FunctionCallingLLM) -> dict[str, Any] | None:
    if isinstance(llm, LlamaCpp):
        known = {name: value for name, value in others.items() if name in LLAMA_CPP_OPTIONS}
        _refuse(set(others) - set(known) - {"num_ctx", "num_predict"}, "the embedded model")
        return known or None
    if isinstance(llm, ServiceLLM) and not isinstance(llm, Ollama):
        _refuse(set(others), f"{llm.metadata.provider} {llm.model}")
    return {"options": dict(others)} if others else None


def _refuse(names: set[str], service: str) -> None:
    """Raise `UnknownKey` if there are any of these options."""
    problem = f"is no option of {service}. Take it out, or name a model of Ollama"
    if faults := [problem_at(UnknownKey, ("model_options", name), problem, NOWHERE) for name in sorted(names)]:
        raise error_of(faults)


async def _check(llm: FunctionCallingLLM, backend: IOBackend, progress: Progress | None) -> None:
    if isinstance(llm, Ollama):
        await _find(llm, backend)
    elif backend.concurrent:
        from anyio import to_thread

        await to_thread.run_sync(partial(llm.load, progress))
    else:
        llm.load(progress)


async def _find(llm: Ollama, backend: IOBackend) -> None:
    """Check that Ollama has the model; pass if it does not list its models."""
    service = await service_of(llm, backend)
    service.retry_policy, service.timeouts = RetryPolicy(max_retries=0), _TIMEOUTS
    request = service.adapter.service_request("GET", "/api/tags")
    address = request.url.rpartition("/api/tags")[0]
    try:
        response = await service.send(request, limit=_MOST)
    except NotFound:
        return
    except (ConnectFailed, Timeout, StreamInterrupted) as error:
        raise ServerNotFound(
            f"Ollama does not answer at {address}: {error.message.partition('. ')[0]}. Start it with `ollama serve`, "
            "or say where it is with ollama_client_config.host or --host"
        ) from error
    _look_up(llm.model, _names(response.body, address, request), address)


_TIMEOUTS: Final = Timeouts(connect=10, first_token=30, idle=30)
_MOST: Final = 10_000_000


def _names(body: bytes, address: str, request: HTTPRequest) -> list[str]:
    """Return the names of the models in an answer to `/api/tags`. Raises `MalformedEvent` if it is none."""
    with suppress(ValueError, LookupError, TypeError):
        return [str(model["name"]) for model in json.loads(body)["models"] or ()]
    # Outside of an `except`: the error of a parser contains all of the body, and so perhaps the key.
    start = request.mask(body.decode("utf-8", "replace"))[:60]
    raise MalformedEvent(
        f"what answers at {address} is no Ollama: asked for its models it says {start!r}. "
        "Check ollama_client_config.host, or --host"
    )


def _look_up(model: str, names: list[str], address: str) -> None:
    """Raise `ModelNotFoundError` unless `model` is among these names, with its tag or without."""
    there = {_tagged(name): name for name in names}
    if _tagged(model) in there:
        return
    near = get_close_matches(_tagged(model), there, _SHOWN, 0.6) or list(there)[:_SHOWN]
    shown = ", ".join(there[name] for name in near)
    has = f"It has: {shown}" if shown else "It has no models yet"
    service = model.partition(":")[0]
    other = f" For the service {service} leave ollama_client_config out." if service in providers() else ""
    raise ModelNotFoundError(
        f"Ollama at {address} has no model {model!r}. Fetch it with `ollama pull {model}`.{other} {has}", model
    )


def _tagged(name: str) -> str:
    """Return a model's name as Ollama compares it: with a tag, in lower case."""
    name = name.lower()
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"
