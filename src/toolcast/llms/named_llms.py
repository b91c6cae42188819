"""LLMs by name: `llm("openai:gpt-5.4")`, and `LATER`, which stands for the one that is found at a call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from typing_extensions import Unpack

from ..errors import MissingLLMError, UnsupportedLLMError
from ..events import Event
from ..values.capabilities import LLMMetadata
from ..values.option_suggestions import PROVIDERS
from ..values.output_mode import OutputMode
from ..values.settings import Settings
from ..values.tool_spec import ToolChoice
from .client import LLMClient
from .defaults import Configs, replacement
from .function_calling_llm import FunctionCallingLLM
from .http_llm import LLMOptions, take_options

if TYPE_CHECKING:
    from ..providers.chat_completions.services import API


def as_llm(given: object) -> FunctionCallingLLM:
    """Return the LLM `given`, or the one of that name. Raise `UnsupportedLLMError` for anything else."""
    made = llm(given) if isinstance(given, str) else given
    if not isinstance(made, FunctionCallingLLM):
        raise UnsupportedLLMError(f"llm: expected a FunctionCallingLLM or a name, got {type(made).__name__}")
    if made is LATER:
        raise _later_error()
    return made


class _LaterClient(LLMClient):
    def check_mode(self, mode: OutputMode | None) -> None:
        """Accept any mode: the LLM that is found is checked, when it is called."""


class _LaterLLM(FunctionCallingLLM):
    __toolcast_client__: ClassVar[type[LLMClient[Any]]] = _LaterClient

    @property
    def metadata(self) -> LLMMetadata:
        raise _later_error()

    def _events(self, messages: Any, tools: Any, tool_choice: ToolChoice, settings: Settings) -> AsyncIterator[Event]:
        raise _later_error()

    def __repr__(self) -> str:
        return "LATER"

    def __reduce__(self) -> str:
        return "LATER"


LATER: Final[FunctionCallingLLM] = _LaterLLM()
"""The `llm=` of a definition that finds its LLM when it is called: that of `use_llm`, or else `Configs.llm`."""


def _later_error() -> UnsupportedLLMError:
    return UnsupportedLLMError(
        "llm: expected an LLM, got LATER, which is for Agent, Engine and ToolOrchestratingLLM. Pass an LLM, or its name"
    )


def found_llm(llm: FunctionCallingLLM) -> FunctionCallingLLM:
    """Return `llm`, or the one that `LATER` stands for here. Raise `MissingLLMError` if there is none."""
    return (replacement() or chosen_llm(None)) if llm is LATER else llm


def chosen_llm(given: object) -> FunctionCallingLLM:
    """Return the LLM `given` (or of that name), or else `Configs.llm`. Raise `MissingLLMError` without either.

    `LATER` is returned as it is.
    """
    if given is LATER:
        return LATER
    chosen = Configs.llm if given is None else given
    if chosen is None:
        raise MissingLLMError("llm must be provided or set in Configs.llm, for example Configs.llm = LlamaCpp()")
    return as_llm(chosen)


_NAMED: Final = {
    "openai": ".vendors.openai_llms.OpenAI",
    "openai-responses": ".vendors.openai_llms.OpenAIResponses",
    "anthropic": ".vendors.anthropic_llms.Anthropic",
    "anthropic-vertex": ".vendors.anthropic_llms.AnthropicVertex",
    "bedrock": ".vendors.bedrock_llm.Bedrock",
    "cohere": ".vendors.cohere_mistral_ollama.Cohere",
    "google": ".vendors.google_llms.Google",
    "gemini": ".vendors.google_llms.Google",
    "google-vertex": ".vendors.google_llms.Google",
    "mistral": ".vendors.cohere_mistral_ollama.Mistral",
    "ollama": ".vendors.cohere_mistral_ollama.Ollama",
}
"""The classes of the providers, imported when they are first named."""


def providers() -> list[str]:
    """Return the provider names that `llm` accepts before the colon."""
    from ..providers.chat_completions.services import SERVICES

    return sorted({*_NAMED, "local", *SERVICES})


def unknown_llm(name: str) -> UnsupportedLLMError:
    """Return the error for the unknown LLM `name`, with the closest provider, or the one that has the model."""
    from difflib import get_close_matches  # for errors alone

    from ..providers.model_features import provider_of

    provider, colon, model = name.partition(":")
    known = providers()
    near = get_close_matches(provider.lower(), known, 1) if colon else []
    if provider in known:
        advice = f"write '{provider}:MODEL'"
    elif name.lower().endswith(".gguf"):
        advice = f"write 'local:{name}' for a model file"
    elif (written := with_colon(name)) is not None:
        advice = f"write '{written}'"
    elif not colon and (owner := provider_of(name)) is not None:
        advice = f"write '{owner}:{name}'"
    elif near:
        advice = f"no provider is called {provider!r}; did you mean '{near[0]}:{model or 'MODEL'}'?"
    else:
        what = f"no provider is called {provider!r}; write" if colon else "write"
        advice = f"{what} 'provider:model' with one of: {', '.join(known)}"
    of_ollama = f" (a model of Ollama is written 'ollama:{name}')" if model or not colon else ""
    return UnsupportedLLMError(f"{name!r} names no LLM: {advice}{of_ollama}")


def with_colon(name: str) -> str | None:
    """Return a name in the spelling of another library, `openai/gpt-4o` or `google-gla:gemini`, in that of `llm`."""
    provider, _, model = name.partition(":" if name.partition(":")[0] in PROVIDERS else "/")
    provider = PROVIDERS.get(provider.lower(), provider.lower())
    return f"{provider}:{model}" if model and provider in providers() else None


class NamedLLMOptions(LLMOptions, total=False):
    """The keyword arguments of `llm`: `api` and `base_model` are for services that speak OpenAI's protocols."""

    api: API | None
    base_model: str | None


def llm(name: str, **options: Unpack[NamedLLMOptions]) -> FunctionCallingLLM:
    """Return the LLM called `name`: `"provider:model"`, for example `"anthropic:claude-sonnet-4-5"`, or `"local"`.

    Providers are `openai`, `openai-responses`, `anthropic`, `anthropic-vertex`, `bedrock`, `cohere`, `google`,
    `google-vertex`, `mistral`, `ollama`, `local`, and every row of `toolcast.providers.chat_completions.services`.
    """
    for option in ("api", "base_model"):
        if options.get(option, "") is None:  # its default, which other classes do not have
            del cast("dict[str, Any]", options)[option]
    provider, _, model = name.partition(":")
    if provider == "local":
        from .local.llama_cpp import LlamaCpp, LocalOptions

        remote = LLMOptions.__annotations__.keys() - LocalOptions.__annotations__.keys()
        own = {option: value for option, value in take_options(options).items() if option not in remote}
        return LlamaCpp(model or "smollm2", **cast("LocalOptions", own))
    if not model or provider not in providers():
        take_options(options)
        raise unknown_llm(name)
    module, _, kind = _NAMED.get(provider, ".vendors.openai_llms.OpenAICompatible").rpartition(".")
    service = {} if provider in _NAMED else {"service": provider}
    fixed: dict[str, Any] = {"vertex": True} if provider == "google-vertex" else service
    make: Callable[..., FunctionCallingLLM] = getattr(import_module(module, __package__), kind)
    return make(model, **fixed, **take_options(options))
