"""The table of models and their capabilities. None: unknown, never guessed.

`MODELS` has rows of a provider, patterns of model names, and the capabilities that differ from the provider's defaults.
The defaults are in `PROVIDER_DEFAULTS`, or else follow from the provider's row in the services table. A capability that
depends on the model has no default. The rows of the clouds are in cloud_models.py.

Sources: the vendors' references and recorded responses, as of November 2026; for the context windows of OpenAI's and
xAI's newest models the pages of resellers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import NamedTuple

from ..capabilities import Capabilities
from .chat_completions.services import LLAMA_CPP, LM_STUDIO, ServiceSpec

NO_TOOLS = Capabilities(tools=False, forced_tools=False, forced_while_thinking=False, parallel=False, strict=False)


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


def of_service(service: ServiceSpec) -> Capabilities:
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
    return defaults if service.tools else defaults.corrected(NO_TOOLS)


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
        "llama.cpp": replace(of_service(LLAMA_CPP), forced_tools=False, forced_while_thinking=False),
        "lmstudio": replace(of_service(LM_STUDIO), forced_tools=None, forced_while_thinking=None),
    }
)
"""The defaults of providers that the services table does not describe, or not fully."""


def sized(facts: Capabilities, context_window: int | None, max_output: int | None = None) -> Capabilities:
    """Return `facts` of a model with these limits, in tokens."""
    return replace(facts, context_window=context_window, max_output=max_output)


TEXT = Capabilities(thinking=False, images=False)
TEXT_THINKING = Capabilities(thinking=True, images=False)
SEEING = Capabilities(thinking=False, images=True)
SEEING_THINKING = Capabilities(thinking=True, images=True)

_GPT_OLD = Capabilities(thinking=False, images=False, audio=False, documents=False, json_schema=False)
_O1_FIRST = replace(_GPT_OLD, thinking=True).corrected(NO_TOOLS)
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

MODELS: tuple[ModelRow, ...] = (
    ModelRow("openai", "gpt-3.5*", sized(_GPT_OLD, 16_385, 4_096)),
    ModelRow("openai", "gpt-4, gpt-4-0613", sized(_GPT_OLD, 8_192, 8_192)),
    ModelRow("openai", "gpt-4-turbo*", sized(replace(_GPT_OLD, images=True), 128_000, 4_096)),
    ModelRow("openai", "gpt-4o-2024-05-13", sized(replace(_GPT, json_schema=False), 128_000, 4_096)),
    ModelRow("openai", "gpt-4o-audio*, gpt-4o-mini-audio*, gpt-audio*", Capabilities(audio=True, thinking=False)),
    ModelRow("openai", "gpt-4o, gpt-4o-20*, gpt-4o-mini, gpt-4o-mini-20*", sized(_GPT, 128_000, 16_384)),
    ModelRow("openai", "gpt-4.1*", sized(_GPT, 1_047_576, 32_768)),
    ModelRow("openai", "o1-mini*, o1-preview*", sized(_O1_FIRST, 128_000)),
    ModelRow("openai", "o3-mini*", sized(replace(_GPT_THINKING, images=False, documents=False), 200_000, 100_000)),
    ModelRow("openai", "o1*, o3*, o4-mini*", sized(_GPT_THINKING, 200_000, 100_000)),
    ModelRow("openai", "gpt-5-chat*, gpt-5.?-chat*", Capabilities(images=True, audio=False, context_window=128_000)),
    ModelRow("openai", "gpt-5-pro*", sized(_GPT_THINKING, 400_000, 272_000)),
    ModelRow("openai", "gpt-5, gpt-5-*, gpt-5.[123]*", sized(_GPT_THINKING, 400_000, 128_000)),
    ModelRow("openai", "gpt-5.4, gpt-5.4-20*, gpt-5.4-pro*, gpt-5.5*", sized(_GPT_THINKING, 1_050_000, 128_000)),
    ModelRow("openai", "gpt-5.6*, gpt-6-*, gpt-6.1-*", sized(_GPT_THINKING, 1_050_000, 128_000)),
    ModelRow("openai", "gpt-5.*, gpt-6*", _GPT_THINKING),
    ModelRow("anthropic", "claude-fable-5*, claude-mythos-5*", sized(_CLAUDE_UNFORCED, 1_000_000, 128_000)),
    ModelRow("anthropic", "claude-opus-5-5*, claude-sonnet-5-5*", sized(_CLAUDE_UNFORCED, 1_000_000, 128_000)),
    ModelRow("anthropic", "claude-haiku-5-5*", sized(replace(_CLAUDE_ADAPTIVE, forced_tools=None), 1_000_000, 128_000)),
    ModelRow("anthropic", "claude-opus-5*, claude-sonnet-5*", sized(_CLAUDE_ADAPTIVE, 1_000_000, 128_000)),
    ModelRow("anthropic", "claude-opus-4-[678]*", sized(_CLAUDE_ADAPTIVE, None, 128_000)),
    ModelRow("anthropic", "claude-sonnet-4-6*", _CLAUDE_ADAPTIVE),
    ModelRow("anthropic", "claude-*-4-5*", sized(_CLAUDE_SCHEMA, 200_000, 64_000)),
    ModelRow("anthropic", "claude-opus-4-1*", sized(_CLAUDE_SCHEMA, 200_000, 32_000)),
    ModelRow("anthropic", "claude-sonnet-4-0, claude-sonnet-4-20*", sized(_CLAUDE_BUDGET, 200_000, 64_000)),
    ModelRow("anthropic", "claude-opus-4-0, claude-opus-4-20*", sized(_CLAUDE_BUDGET, 200_000, 32_000)),
    ModelRow("anthropic", "claude-3-7*", sized(_CLAUDE_BUDGET, 200_000, 64_000)),
    ModelRow("anthropic", "claude-3-5*", sized(_CLAUDE_OLD, 200_000, 8_192)),
    ModelRow("anthropic", "claude-3-*", sized(replace(_CLAUDE_OLD, documents=None), 200_000, 4_096)),
    ModelRow("google", "gemini-2.0-flash*", sized(_GEMINI, 1_048_576, 8_192)),
    ModelRow(
        "google",
        "gemini-2.5-pro*, gemini-2.5-flash, gemini-2.5-flash-lite*",
        sized(_GEMINI_THINKING, 1_048_576, 65_536),
    ),
    ModelRow("google", "gemini-3-pro-preview, gemini-3-flash-preview", sized(_GEMINI_THINKING, 1_048_576, 65_536)),
    # Of Gemini 4 so many tokens of one request; more if `max_tokens` says so (.../generate-content/long-decode).
    ModelRow("google", "gemini-3.8-flash*, gemini-4-argon*", sized(_GEMINI_THINKING, 1_048_576, 65_536)),
    ModelRow("google", "gemini-3*, gemini-4*", _GEMINI_THINKING),
    ModelRow("mistral", "mistral-large-2512, ministral-*-2512", sized(SEEING, 256_000)),
    ModelRow("mistral", "mistral-medium-3.5*", sized(SEEING_THINKING, 256_000)),
    ModelRow("mistral", "mistral-medium-25*, mistral-small-25*", sized(SEEING, 128_000)),
    ModelRow("mistral", "magistral-*-2509", sized(SEEING_THINKING, 128_000)),
    ModelRow("mistral", "magistral*", Capabilities(thinking=True)),
    ModelRow("mistral", "pixtral*", sized(SEEING, 128_000)),
    ModelRow("mistral", "codestral*", TEXT),
    ModelRow("mistral", "voxtral*", Capabilities(thinking=False, audio=True)),
    ModelRow("groq", "gpt-oss-20b, gpt-oss-120b", sized(replace(TEXT_THINKING, json_schema=True), 131_072, 65_536)),
    ModelRow("groq", "llama-4-*", sized(replace(SEEING, json_schema=True), 131_072, 8_192)),
    ModelRow("groq", "kimi-k2-instruct-0905", sized(replace(TEXT, json_schema=True), 262_144, 16_384)),
    ModelRow("groq", "llama-3.3-70b-versatile", sized(replace(TEXT, json_schema=False), 131_072, 32_768)),
    ModelRow("groq", "llama-3.1-8b-instant", sized(replace(TEXT, json_schema=False), 131_072, 131_072)),
    ModelRow("groq", "qwen3-32b", sized(replace(TEXT_THINKING, json_schema=False), 131_072, 40_960)),
    ModelRow("deepseek", "deepseek-v4*, deepseek-flash", sized(TEXT_THINKING, 1_000_000, 384_000)),
    ModelRow("xai", "grok-4.5*", sized(SEEING_THINKING, 500_000)),
    ModelRow("xai", "grok-4.3*", sized(SEEING_THINKING, 1_000_000)),
    ModelRow("xai", "grok-4-fast-non*, grok-4-1-fast-non*", sized(SEEING, 2_000_000)),
    ModelRow("xai", "grok-4-fast*, grok-4-1-fast*", sized(SEEING_THINKING, 2_000_000)),
    ModelRow("xai", "grok-4, grok-4-0709", sized(SEEING_THINKING, 256_000)),
    ModelRow("xai", "grok-code-fast*", sized(TEXT_THINKING, 256_000)),
    ModelRow("xai", "grok-3-mini*", sized(TEXT_THINKING, 131_072)),
    ModelRow("xai", "grok-3*", sized(TEXT, 131_072)),
    ModelRow("moonshot", "kimi-k3*", sized(SEEING_THINKING, 1_048_576)),
    ModelRow("moonshot", "kimi-k2.[5-9]*", sized(SEEING_THINKING, 262_144)),
    ModelRow("moonshot", "moonshot-v1-*vision*", SEEING),
    ModelRow("moonshot", "moonshot-v1-8k", sized(TEXT, 8_192)),
    ModelRow("moonshot", "moonshot-v1-32k", sized(TEXT, 32_768)),
    ModelRow("moonshot", "moonshot-v1-128k", sized(TEXT, 131_072)),
    ModelRow("minimax", "minimax-m1*, minimax-m2*", replace(TEXT_THINKING, json_schema=False)),
    ModelRow("minimax", "minimax-m*", Capabilities(thinking=True, json_schema=False)),
    ModelRow("qwen", "qwen3-max*", Capabilities(images=False, context_window=262_144, max_output=65_536)),
    ModelRow("qwen", "qwen3.7-max*", TEXT_THINKING),
    ModelRow("qwen", "qwen3.8-max*", SEEING_THINKING),
    ModelRow("qwen", "qwen*-vl-*", Capabilities(images=True)),
    ModelRow("perplexity", "sonar", sized(SEEING, 128_000)),
    ModelRow("perplexity", "sonar-pro", sized(SEEING, 200_000)),
    ModelRow(
        "perplexity", "sonar-reasoning*, sonar-deep-research", Capabilities(thinking=True, context_window=128_000)
    ),
    ModelRow("cohere", "command-a-plus*", SEEING_THINKING),
    ModelRow("cohere", "command-a-reasoning*", sized(TEXT_THINKING, 256_000, 32_000)),
    ModelRow("cohere", "command-a-vision*", sized(SEEING, 128_000, 8_000)),
    ModelRow("cohere", "command-a-translate*", sized(TEXT, 16_000, 8_000)),
    ModelRow("cohere", "command-a*", sized(TEXT, 256_000, 8_000)),
    ModelRow("cohere", "command-r7b*", sized(TEXT, 128_000, 4_000)),
    # `tool_choice` begins with Command R7B.
    ModelRow("cohere", "command-r*", sized(replace(TEXT, forced_tools=False), 128_000, 4_000)),
    ModelRow("llama.cpp", "smollm2", replace(TEXT, audio=False, documents=False)),
)
"""The rows of all providers but the clouds: see `model_rows`."""
