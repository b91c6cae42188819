"""The table of models and their capabilities. None: unknown, never guessed.

`MODELS` has rows of a provider, patterns of model names, and the capabilities that differ from the provider's defaults.
The first row that matches a name applies. A model without a row has the defaults of its provider and `known=False`. The
defaults are in `PROVIDER_DEFAULTS`, or else follow from the provider's row in the services table. A capability that
depends on the model has no default. Users override entries with `capabilities=` of an LLM.

Sources: the vendors' references and recorded responses, as of November 2026; for the context windows of OpenAI's and
xAI's newest models the pages of resellers.
"""

from __future__ import annotations

import re
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
    """A row of the table. `models`: patterns of model names with `*`, `?` and `[...]`, separated by commas."""

    provider: str
    models: str
    facts: Capabilities

    def fits(self, model: str) -> bool:
        """Return True if `model` matches one of the patterns."""
        # `fnmatchcase` compiles a regular expression for each pattern; few patterns begin like the name.
        return any(
            model.startswith(re.split(r"[*?[]", pattern, maxsplit=1)[0]) and fnmatchcase(model, pattern)
            for pattern in self.models.split(", ")
        )


@lru_cache(maxsize=256)
def model_capabilities(provider: str, model: str) -> Capabilities:
    """Return the capabilities of a model; the provider's defaults for a model without a row."""
    name = bedrock_model_name(model) if provider == "bedrock" else model.rpartition("/")[2].lower()
    if provider == "anthropic-vertex":
        name = name.replace("@", "-")  # before the date
    row = next((row for row in MODELS if row.provider == provider and row.fits(name)), None)
    return _with_defaults(row) if row else provider_defaults(provider)


def bedrock_model_name(model: str) -> str:
    """Return the id of a model of Amazon Bedrock, `vendor.name`, from an ARN or the id of an inference profile.

    Inference profiles of AWS have the id of their model after that of a region (`us.`, `eu.`, `apac.`, `global.`). The
    name of a profile of one's own says nothing of its model.
    """
    return re.sub(r"^(?:[a-z]{2}|us-gov|apac|global)\.(?=[a-z0-9]+\.)", "", model.rpartition("/")[2].lower())


def provider_defaults(provider: str) -> Capabilities:
    """Return the capabilities that all models of a provider have."""
    if provider in PROVIDER_DEFAULTS:
        return PROVIDER_DEFAULTS[provider]
    return _of_service(SERVICES[provider]) if provider in SERVICES else Capabilities()


def all_capabilities() -> Iterator[tuple[str, str, Capabilities]]:
    """Yield provider, model patterns and capabilities of all rows; last of each provider `*`, its other models."""
    for provider in sorted({*PROVIDER_DEFAULTS, *SERVICES}):
        yield from ((provider, row.models, _with_defaults(row)) for row in MODELS if row.provider == provider)
        yield provider, "*", provider_defaults(provider)


def _with_defaults(row: ModelRow) -> Capabilities:
    return replace(provider_defaults(row.provider).corrected(row.facts), known=True)


def _of_service(service: ServiceSpec) -> Capabilities:
    """Return the defaults of a service from its row. A model need not use everything that its service accepts."""
    forced = service.forced != "auto"
    defaults = Capabilities(
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
    return defaults if service.tools else defaults.corrected(_NO_TOOLS)


PROVIDER_DEFAULTS: Mapping[str, Capabilities] = MappingProxyType(
    {
        "anthropic": Capabilities(tools=True, parallel=True, images=True, audio=False),
        # All else depends on the model.
        "bedrock": Capabilities(),
        "anthropic-vertex": Capabilities(tools=True, parallel=True, images=True, audio=False),
        "cohere": Capabilities(tools=True, forced_tools=True, audio=False, documents=False, json_schema=True),
        # Gemini has strictness only as a mode of all tools together.
        "google": Capabilities(tools=True, forced_tools=True, parallel=True, json_schema=True, strict=False),
        "mistral": Capabilities(tools=True, forced_tools=True, parallel=True, json_schema=True, strict=False),
        # tool_choice is ignored; `format` constrains every model to a schema. The rest depends on the model.
        "ollama": Capabilities(
            forced_tools=False,
            forced_while_thinking=False,
            audio=False,
            documents=False,
            json_schema=True,
            strict=False,
        ),
        # They accept a required tool choice, but many of their models call no tool; a schema is enforced.
        "llama.cpp": replace(_of_service(LLAMA_CPP), forced_tools=False, forced_while_thinking=False),
        "lmstudio": replace(_of_service(LM_STUDIO), forced_tools=None, forced_while_thinking=None),
    }
)
"""The defaults of providers that the services table does not describe, or not fully."""


def _sized(facts: Capabilities, context_window: int | None, max_output: int | None = None) -> Capabilities:
    """Return `facts` of a model with these limits, in tokens."""
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
# Until 4.5 thinking has a budget, and excludes a required call.
_CLAUDE_BUDGET = replace(_CLAUDE_OLD, thinking=True, forced_while_thinking=False)
_CLAUDE_SCHEMA = replace(_CLAUDE_BUDGET, json_schema=True, strict=True)
# With adaptive thinking it worked in tests although the documentation excludes it: unknown.
_CLAUDE_ADAPTIVE = replace(_CLAUDE_SCHEMA, forced_while_thinking=None)
_CLAUDE_UNFORCED = replace(_CLAUDE_SCHEMA, forced_tools=False)
_GEMINI = Capabilities(thinking=False, images=True, audio=True, documents=True)
_GEMINI_THINKING = replace(_GEMINI, thinking=True, forced_while_thinking=True)

_MODELS: tuple[ModelRow, ...] = (
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
    ModelRow("minimax", "minimax-m1*, minimax-m2*", replace(_TEXT_THINKING, json_schema=False)),
    ModelRow("minimax", "minimax-m*", Capabilities(thinking=True, json_schema=False)),
    ModelRow("qwen", "qwen3-max*", Capabilities(images=False, context_window=262_144, max_output=65_536)),
    ModelRow("qwen", "qwen3.7-max*", _TEXT_THINKING),
    ModelRow("qwen", "qwen3.8-max*", _SEEING_THINKING),
    ModelRow("qwen", "qwen*-vl-*", Capabilities(images=True)),
    ModelRow("perplexity", "sonar", _sized(_SEEING, 128_000)),
    ModelRow("perplexity", "sonar-pro", _sized(_SEEING, 200_000)),
    ModelRow(
        "perplexity", "sonar-reasoning*, sonar-deep-research", Capabilities(thinking=True, context_window=128_000)
    ),
    ModelRow("cohere", "command-a-plus*", _SEEING_THINKING),
    ModelRow("cohere", "command-a-reasoning*", _sized(_TEXT_THINKING, 256_000, 32_000)),
    ModelRow("cohere", "command-a-vision*", _sized(_SEEING, 128_000, 8_000)),
    ModelRow("cohere", "command-a-translate*", _sized(_TEXT, 16_000, 8_000)),
    ModelRow("cohere", "command-a*", _sized(_TEXT, 256_000, 8_000)),
    ModelRow("cohere", "command-r7b*", _sized(_TEXT, 128_000, 4_000)),
    # `tool_choice` begins with Command R7B.
    ModelRow("cohere", "command-r*", _sized(replace(_TEXT, forced_tools=False), 128_000, 4_000)),
    ModelRow("llama.cpp", "smollm2", replace(_TEXT, audio=False, documents=False)),
)

_TOOLS = Capabilities(tools=True, forced_tools=True, audio=False)
_OFFERED = Capabilities(tools=True, forced_tools=False, forced_while_thinking=False, audio=False)
_NOVA = replace(_TOOLS, images=True, documents=True, thinking=False, json_schema=False)
_CHAT = replace(_NO_TOOLS, thinking=False, images=False, audio=False)


def _claude_on_bedrock() -> Iterator[ModelRow]:
    """Yield the rows of Claude on Bedrock: those of Anthropic, with what all its models have."""
    for row in _MODELS:
        if row.provider == "anthropic":
            facts = row.facts
            if row.models == "claude-opus-4-1*":  # structured outputs begin with 4.5 there (user guide)
                facts = replace(facts, json_schema=False, strict=False)
            names = ", ".join(f"anthropic.{name}" for name in row.models.split(", "))
            yield ModelRow("bedrock", names, PROVIDER_DEFAULTS["anthropic"].corrected(facts))


_BEDROCK: tuple[ModelRow, ...] = (
    *_claude_on_bedrock(),
    ModelRow("bedrock", "amazon.nova-2-lite*", _sized(replace(_NOVA, thinking=True), 1_000_000)),
    ModelRow("bedrock", "amazon.nova-premier*", _sized(_NOVA, 1_000_000)),
    ModelRow("bedrock", "amazon.nova-pro*, amazon.nova-lite*", _sized(_NOVA, 300_000)),
    ModelRow("bedrock", "amazon.nova-micro*", _sized(replace(_NOVA, images=False, documents=False), 128_000)),
    ModelRow("bedrock", "amazon.titan-text*", _CHAT),
    ModelRow("bedrock", "meta.llama3-8b*, meta.llama3-70b*", _sized(_CHAT, 8_192)),
    ModelRow("bedrock", "meta.llama3-2-1b*, meta.llama3-2-3b*", _sized(_CHAT, 128_000)),
    ModelRow("bedrock", "meta.llama3-2-*", _sized(replace(_OFFERED, images=True, thinking=False), 128_000)),
    ModelRow(
        "bedrock", "meta.llama3-1-*, meta.llama3-3-*", _sized(replace(_OFFERED, images=False, thinking=False), 128_000)
    ),
    ModelRow("bedrock", "meta.llama4-scout*", _sized(replace(_OFFERED, images=True, thinking=False), 10_000_000)),
    ModelRow("bedrock", "meta.llama4-*", _sized(replace(_OFFERED, images=True, thinking=False), 1_000_000)),
    ModelRow("bedrock", "mistral.mistral-7b*, mistral.mixtral-8x7b*", _sized(_CHAT, 32_000)),
    ModelRow("bedrock", "mistral.mistral-large-24*", _sized(replace(_TOOLS, images=False, thinking=False), None)),
    ModelRow("bedrock", "mistral.pixtral-large*", _sized(replace(_TOOLS, images=True, thinking=False), 128_000)),
    ModelRow("bedrock", "mistral.mistral-large-3*", _sized(replace(_SEEING, json_schema=True), 256_000)),
    ModelRow(
        "bedrock",
        "openai.gpt-oss*",
        _sized(replace(_TEXT_THINKING, json_schema=True, tools=True, forced_tools=True), 128_000),
    ),
    ModelRow("bedrock", "deepseek.r1*", _sized(replace(_CHAT, thinking=True), 128_000)),
    ModelRow("bedrock", "deepseek.v3*", replace(_TOOLS, images=False)),
    ModelRow("bedrock", "qwen.qwen3-vl*", replace(_SEEING, tools=True)),
    ModelRow("bedrock", "qwen.qwen3*", replace(_TEXT, tools=True)),
    ModelRow("bedrock", "cohere.command-r*", _sized(replace(_TEXT, tools=True), 128_000)),
    ModelRow("bedrock", "writer.palmyra-x5*", Capabilities(tools=True, context_window=1_000_000)),
    ModelRow("bedrock", "writer.palmyra-x4*", Capabilities(tools=True, context_window=128_000)),
)
"""The models of Amazon Bedrock, by the vendor in their ids. Sources: the user guide of Bedrock ("Supported models and
model features"), the API reference of `ToolChoice`, and for the context windows the list of genai-prices."""

# An organization has to allow JSON schemas on Vertex AI first (docs.cloud.google.com/vertex-ai/generative-ai/docs/
# partner-models/claude/structured_outputs), so they are not chosen by themselves.
_CLAUDE_ON_VERTEX: tuple[ModelRow, ...] = tuple(
    ModelRow(
        "anthropic-vertex",
        row.models,
        replace(row.facts, json_schema=row.facts.json_schema and None, strict=row.facts.strict and None),
    )
    for row in _MODELS
    if row.provider == "anthropic"
)

MODELS: tuple[ModelRow, ...] = (*_MODELS, *_CLAUDE_ON_VERTEX, *_BEDROCK)
"""The rows; the first that matches a name applies."""
