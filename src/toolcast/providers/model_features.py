"""What models can do, as one table of facts; what it does not know is None, and never guessed.

`MODELS` holds rows of a provider, names of models, and what is known of them beyond their provider's usual. The first
row that fits a name counts. A model that no row names gets its provider's usual alone, and `known=False`: for a service
that speaks OpenAI's protocol that is what its row in `compatible` says, for the others it stands in `USUAL`. Where a
fact changes with the model, the usual does not tell it. A user who knows better says so by an LLM's `capabilities=`.

Sources: the vendors' references and recorded answers, as of November 2026; for the sizes of OpenAI's and xAI's newest
models the pages of those who resell them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from ..capabilities import Capabilities
from .chat_completions.services import LLAMA_CPP, LM_STUDIO, SERVICES, ServiceSpec

_NO_TOOLS = Capabilities(tools=False, forced_tools=False, forced_while_thinking=False, parallel=False, strict=False)


class ModelRow(NamedTuple):
    """What is known of some models of a provider. `models`: their names, with `*`, `?` and `[...]`, between commas."""

    provider: str
    models: str
    facts: Capabilities

    def fits(self, model: str) -> bool:
        """Whether `model` is one of them."""
        return any(fnmatchcase(model, pattern) for pattern in self.models.split(", "))


@lru_cache(maxsize=256)
def capabilities(provider: str, model: str) -> Capabilities:
    """What is known of this model; of a model that is not known, what is usual for its provider."""
    name = model.rpartition("/")[2].lower()
    row = next((row for row in MODELS if row.provider == provider and row.fits(name)), None)
    return _told(row) if row else usual(provider)


def usual(provider: str) -> Capabilities:
    """What holds for every model of this provider."""
    if provider in USUAL:
        return USUAL[provider]
    return _of_service(SERVICES[provider]) if provider in SERVICES else Capabilities()


def everything() -> Iterator[tuple[str, str, Capabilities]]:
    """Provider, models, and what is known of them; last for each provider `*`, all its other models."""
    for provider in sorted({*USUAL, *SERVICES}):
        yield from ((provider, row.models, _told(row)) for row in MODELS if row.provider == provider)
        yield provider, "*", usual(provider)


def _told(row: ModelRow) -> Capabilities:
    return replace(usual(row.provider).corrected(row.facts), known=True)


def _of_service(service: ServiceSpec) -> Capabilities:
    """What a service's row says of all its models. What it lets through, a model need not understand."""
    forced = service.forced != "auto"
    told = Capabilities(
        tools=True,
        forced_tools=forced,
        forced_while_thinking=forced and service.forced_while_thinking,
        parallel=service.parallel_flag or None,
        thinking=None if service.thinking_in else False,
        audio=None if service.audio else False,
        documents=None if service.documents else False,
        json_schema={"json_schema": True, "json_object": False, None: None}[service.response_format],
        strict=service.strict or None,
    )
    return told if service.tools else told.corrected(_NO_TOOLS)


USUAL: Mapping[str, Capabilities] = MappingProxyType(
    {
        "anthropic": Capabilities(tools=True, parallel=True, images=True, audio=False),
        # What Gemini has of strictness is a mode for all tools at once.
        "google": Capabilities(tools=True, forced_tools=True, parallel=True, json_schema=True, strict=False),
        "mistral": Capabilities(tools=True, forced_tools=True, parallel=True, json_schema=True, strict=False),
        # tool_choice is ignored; `format` holds every model to a schema. The rest is the model's own.
        "ollama": Capabilities(
            forced_tools=False,
            forced_while_thinking=False,
            audio=False,
            documents=False,
            json_schema=True,
            strict=False,
        ),
        # They pass on that a tool must be called, and many of their models call none; a schema they enforce.
        "llama.cpp": replace(_of_service(LLAMA_CPP), forced_tools=False, forced_while_thinking=False),
        "lmstudio": replace(_of_service(LM_STUDIO), forced_tools=None, forced_while_thinking=None),
    }
)
"""What is usual for providers of whom no row in `compatible` says enough."""


def _sized(facts: Capabilities, context_window: int | None, max_output: int | None = None) -> Capabilities:
    """`facts` of a model of this size."""
    return replace(facts, context_window=context_window, max_output=max_output)


_TEXT = Capabilities(thinking=False, images=False)
_TEXT_THINKING = Capabilities(thinking=True, images=False)
_SEEING = Capabilities(thinking=False, images=True)
_SEEING_THINKING = Capabilities(thinking=True, images=True)

_GPT_OLD = Capabilities(thinking=False, images=False, audio=False, documents=False, json_schema=False)
_O1_FIRST = replace(_GPT_OLD, thinking=True).corrected(_NO_TOOLS)
_GPT = Capabilities(thinking=False, images=True, audio=False, documents=True)
_GPT_THINKING = Capabilities(thinking=True, images=True, audio=False, documents=True)

_CLAUDE_OLD = Capabilities(forced_tools=True, thinking=False, documents=True, json_schema=False, strict=False)
# Until 4.5 thinking has a budget, and then no call can be forced.
_CLAUDE_BUDGET = replace(_CLAUDE_OLD, thinking=True, forced_while_thinking=False)
_CLAUDE_SCHEMA = replace(_CLAUDE_BUDGET, json_schema=True, strict=True)
# It was seen to work with adaptive thinking, and is told to fail; so it is not known.
_CLAUDE_ADAPTIVE = replace(_CLAUDE_SCHEMA, forced_while_thinking=None)
_CLAUDE_UNFORCED = replace(_CLAUDE_SCHEMA, forced_tools=False)
_GEMINI = Capabilities(thinking=False, images=True, audio=True, documents=True)
_GEMINI_THINKING = replace(_GEMINI, thinking=True, forced_while_thinking=True)

MODELS: tuple[ModelRow, ...] = (
    ModelRow("openai", "gpt-3.5*", _sized(_GPT_OLD, 16_385, 4_096)),
    ModelRow("openai", "gpt-4, gpt-4-0613", _sized(_GPT_OLD, 8_192, 8_192)),
    ModelRow("openai", "gpt-4-turbo*", _sized(replace(_GPT_OLD, images=True), 128_000, 4_096)),
    ModelRow("openai", "gpt-4o-2024-05-13", _sized(replace(_GPT, json_schema=False), 128_000, 4_096)),
    ModelRow("openai", "gpt-4o-audio*, gpt-4o-mini-audio*, gpt-audio*", Capabilities(audio=True, thinking=False)),
    ModelRow("openai", "gpt-4o, gpt-4o-20*, gpt-4o-mini, gpt-4o-mini-20*", _sized(_GPT, 128_000, 16_384)),
    ModelRow("openai", "gpt-4.1*", _sized(_GPT, 1_047_576, 32_768)),
    ModelRow("openai", "o1-mini*, o1-preview*", _sized(_O1_FIRST, 128_000)),
    ModelRow("openai", "o3-mini*", _sized(replace(_GPT_THINKING, images=False, documents=False), 200_000, 100_000)),
    ModelRow("openai", "o1*, o3*, o4-mini*", _sized(_GPT_THINKING, 200_000, 100_000)),
    ModelRow("openai", "gpt-5-chat*, gpt-5.?-chat*", Capabilities(images=True, audio=False, context_window=128_000)),
    ModelRow("openai", "gpt-5-pro*", _sized(_GPT_THINKING, 400_000, 272_000)),
    ModelRow("openai", "gpt-5, gpt-5-*, gpt-5.[123]*", _sized(_GPT_THINKING, 400_000, 128_000)),
    ModelRow("openai", "gpt-5.4, gpt-5.4-20*, gpt-5.4-pro*, gpt-5.5*", _sized(_GPT_THINKING, 1_050_000, 128_000)),
    ModelRow("openai", "gpt-5.6*, gpt-6-sol*, gpt-6.?-sol*", _sized(_GPT_THINKING, 1_050_000, 128_000)),
    ModelRow("openai", "gpt-5.*, gpt-6*", _GPT_THINKING),
    ModelRow("anthropic", "claude-fable-5*, claude-mythos-5*", _sized(_CLAUDE_UNFORCED, 1_000_000, 128_000)),
    ModelRow("anthropic", "claude-opus-5-5*, claude-sonnet-5-5*", _sized(_CLAUDE_UNFORCED, 1_000_000, 128_000)),
    ModelRow(
        "anthropic", "claude-haiku-5-5*", _sized(replace(_CLAUDE_ADAPTIVE, forced_tools=None), 1_000_000, 128_000)
    ),
    ModelRow("anthropic", "claude-opus-5*, claude-sonnet-5*", _sized(_CLAUDE_ADAPTIVE, 1_000_000, 128_000)),
    ModelRow("anthropic", "claude-opus-4-[678]*", _sized(_CLAUDE_ADAPTIVE, None, 128_000)),
    ModelRow("anthropic", "claude-sonnet-4-6*", _CLAUDE_ADAPTIVE),
    ModelRow("anthropic", "claude-*-4-5*", _sized(_CLAUDE_SCHEMA, 200_000, 64_000)),
    ModelRow("anthropic", "claude-opus-4-1*", _sized(_CLAUDE_SCHEMA, 200_000, 32_000)),
    ModelRow("anthropic", "claude-sonnet-4-0, claude-sonnet-4-20*", _sized(_CLAUDE_BUDGET, 200_000, 64_000)),
    ModelRow("anthropic", "claude-opus-4-0, claude-opus-4-20*", _sized(_CLAUDE_BUDGET, 200_000, 32_000)),
    ModelRow("anthropic", "claude-3-7*", _sized(_CLAUDE_BUDGET, 200_000, 64_000)),
    ModelRow("anthropic", "claude-3-5*", _sized(_CLAUDE_OLD, 200_000, 8_192)),
    ModelRow("anthropic", "claude-3-*", _sized(replace(_CLAUDE_OLD, documents=None), 200_000, 4_096)),
    ModelRow("google", "gemini-2.0-flash*", _sized(_GEMINI, 1_048_576, 8_192)),
    ModelRow(
        "google",
        "gemini-2.5-pro*, gemini-2.5-flash, gemini-2.5-flash-lite*",
        _sized(_GEMINI_THINKING, 1_048_576, 65_536),
    ),
    ModelRow("google", "gemini-3-pro-preview, gemini-3-flash-preview", _sized(_GEMINI_THINKING, 1_048_576, 65_536)),
    ModelRow("google", "gemini-3*", _GEMINI_THINKING),
    ModelRow("mistral", "mistral-large-2512, ministral-*-2512", _sized(_SEEING, 256_000)),
    ModelRow("mistral", "mistral-medium-3.5*", _sized(_SEEING_THINKING, 256_000)),
    ModelRow("mistral", "mistral-medium-25*, mistral-small-25*", _sized(_SEEING, 128_000)),
    ModelRow("mistral", "magistral-*-2509", _sized(_SEEING_THINKING, 128_000)),
    ModelRow("mistral", "magistral*", Capabilities(thinking=True)),
    ModelRow("mistral", "pixtral*", _sized(_SEEING, 128_000)),
    ModelRow("mistral", "codestral*", _TEXT),
    ModelRow("mistral", "voxtral*", Capabilities(thinking=False, audio=True)),
    ModelRow("groq", "gpt-oss-20b, gpt-oss-120b", _sized(replace(_TEXT_THINKING, json_schema=True), 131_072, 65_536)),
    ModelRow("groq", "llama-4-*", _sized(replace(_SEEING, json_schema=True), 131_072, 8_192)),
    ModelRow("groq", "kimi-k2-instruct-0905", _sized(replace(_TEXT, json_schema=True), 262_144, 16_384)),
    ModelRow("groq", "llama-3.3-70b-versatile", _sized(replace(_TEXT, json_schema=False), 131_072, 32_768)),
    ModelRow("groq", "llama-3.1-8b-instant", _sized(replace(_TEXT, json_schema=False), 131_072, 131_072)),
    ModelRow("groq", "qwen3-32b", _sized(replace(_TEXT_THINKING, json_schema=False), 131_072, 40_960)),
    ModelRow("deepseek", "deepseek-v4*, deepseek-flash", _sized(_TEXT_THINKING, 1_000_000, 384_000)),
    ModelRow("xai", "grok-4.5*", _sized(_SEEING_THINKING, 500_000)),
    ModelRow("xai", "grok-4.3*", _sized(_SEEING_THINKING, 1_000_000)),
    ModelRow("xai", "grok-4-fast-non*, grok-4-1-fast-non*", _sized(_SEEING, 2_000_000)),
    ModelRow("xai", "grok-4-fast*, grok-4-1-fast*", _sized(_SEEING_THINKING, 2_000_000)),
    ModelRow("xai", "grok-4, grok-4-0709", _sized(_SEEING_THINKING, 256_000)),
    ModelRow("xai", "grok-code-fast*", _sized(_TEXT_THINKING, 256_000)),
    ModelRow("xai", "grok-3-mini*", _sized(_TEXT_THINKING, 131_072)),
    ModelRow("xai", "grok-3*", _sized(_TEXT, 131_072)),
    ModelRow("moonshot", "kimi-k2.[5-9]*", _sized(_SEEING_THINKING, 262_144)),
    ModelRow("moonshot", "moonshot-v1-*vision*", _SEEING),
    ModelRow("moonshot", "moonshot-v1-8k", _sized(_TEXT, 8_192)),
    ModelRow("moonshot", "moonshot-v1-32k", _sized(_TEXT, 32_768)),
    ModelRow("moonshot", "moonshot-v1-128k", _sized(_TEXT, 131_072)),
    ModelRow("qwen", "qwen3-max*", Capabilities(images=False, context_window=262_144, max_output=65_536)),
    ModelRow("qwen", "qwen3.7-max*", _TEXT_THINKING),
    ModelRow("qwen", "qwen3.8-max*", _SEEING_THINKING),
    ModelRow("qwen", "qwen*-vl-*", Capabilities(images=True)),
    ModelRow("perplexity", "sonar", _sized(_SEEING, 128_000)),
    ModelRow("perplexity", "sonar-pro", _sized(_SEEING, 200_000)),
    ModelRow(
        "perplexity", "sonar-reasoning*, sonar-deep-research", Capabilities(thinking=True, context_window=128_000)
    ),
    ModelRow("llama.cpp", "smollm2", replace(_TEXT, audio=False, documents=False)),
)
"""The rows; of several that fit a name, the first counts."""
