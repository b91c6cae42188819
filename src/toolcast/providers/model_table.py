"""The table of model families: what they take, and how their settings are sent. None: unknown, never guessed.

`MODELS` has a row for the models of a provider that behave alike. Adapters read the rows and name no model. What a row
leaves out has the provider's defaults, which are in `OWN_DEFAULTS` or else follow from its row in the services
table. A capability that depends on the model has no default. The rows of the clouds are in model_features.py.

A name that no row has takes, at the vendor's own address, the row that is `later` than it: the newest of its kind.

Sources: `SOURCES`, as of November 2026, and recorded responses; for the context windows of OpenAI's and xAI's newest
models the pages of resellers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from ..values.capabilities import Capabilities

When: TypeAlias = Literal["always", "unless_off", "if_on", "if_off"]
"""When a setting is left out: for models that think unless `thinking=False`, that think if `thinking` is set, and whose
thinking cannot be disabled."""

NO_TOOLS = Capabilities(tools=False, forced_tools=False, forced_while_thinking=False, parallel=False, strict=False)


_NOTHING: Mapping[When, str] = MappingProxyType({})
_OTHER_PROTOCOL = {"": set[str](), "chat": {"responses"}, "responses": {"chat"}}


class ModelFamily(NamedTuple):
    """A row of the table.

    Attributes:
        provider: The name of the provider.
        models: Patterns of model names with `*`, `?` and `[...]`, separated by commas.
        facts: The capabilities that differ from the provider's defaults.
        efforts: The efforts of thinking, the least first; empty: not known, so that they are sent as given.
        thinking: What says how much it thinks: an effort, a budget of tokens, or either; a mode, which is on or off.
        least: The least budget, for models that always think.
        off: The type that disables thinking; `never`: nothing does.
        left_out: The settings that it rejects, by when it does.
        protocol: The only one of OpenAI's two protocols that it has, at OpenAI's own address.
        traits: What else it has, in words that its adapter knows.
        later: Patterns of names without a row that this row is for at the vendor's own address.
        source: The page that the row is from, where it is not that of `SOURCES`.
    """

    provider: str
    models: str
    facts: Capabilities = Capabilities()
    efforts: str = ""
    thinking: Literal["", "effort", "budget", "either", "mode"] = ""
    least: int = 0
    off: Literal["disabled", "between_tools", "never"] = "disabled"
    left_out: Mapping[When, str] = _NOTHING
    protocol: Literal["", "chat", "responses"] = ""
    traits: str = ""
    later: str = ""
    source: str = ""

    def fits(self, model: str) -> bool:
        """Return True if `model` matches one of the patterns."""
        return fits(model, self.models)

    def has(self, trait: str) -> bool:
        """Return True if the word is one of `traits`."""
        return trait in self.traits.split()

    def limits(self, effort: str | None) -> frozenset[str]:
        """Return the settings that it rejects with this effort; None: the request has none."""
        off = effort == "none"
        on = {"always": True, "unless_off": not off, "if_on": effort is not None and not off, "if_off": off}
        found = {name for when, names in self.left_out.items() if on[when] for name in names.split()}
        return frozenset(found | _OTHER_PROTOCOL[self.protocol])


def fits(model: str, patterns: str) -> bool:
    """Return True if `model` matches one of the patterns, which commas separate."""
    # `fnmatchcase` compiles a regular expression for each pattern; few patterns begin like the name.
    return any(
        model.startswith(re.split(r"[*?[]", pattern, maxsplit=1)[0]) and fnmatchcase(model, pattern)
        for pattern in patterns.split(", ")
    )


OWN_DEFAULTS: Mapping[str, Capabilities] = MappingProxyType(
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
_GPT_200K = sized(_GPT_THINKING, 200_000, 100_000)
_GPT_400K = sized(_GPT_THINKING, 400_000, 128_000)
_GPT_1M = sized(_GPT_THINKING, 1_050_000, 128_000)

_SAMPLING = "temperature top_p logprobs"
# Asked for its encrypted thoughts, a model that does not think refuses.
_NO_THOUGHTS: Mapping[When, str] = {"always": "include thinking"}
# The first models that think always do.
_O_SERIES: Mapping[When, str] = {"always": f"{_SAMPLING} stop parallel_tool_calls"}
_THINKS_ALWAYS: Mapping[When, str] = {"always": f"{_SAMPLING} stop"}
_THINKS_IF_ON: Mapping[When, str] = {"always": "stop", "if_on": _SAMPLING}
# Since GPT-5.4 chat completions have no tools beside thoughts: /api/docs/guides/migrate-to-responses.
_GPT_5_4: Mapping[When, str] = {"always": "stop", "if_on": f"{_SAMPLING} tools"}
_GPT_5_5: Mapping[When, str] = {"always": "stop in_memory", "unless_off": f"{_SAMPLING} tools"}
_GPT_6_ASTRA: Mapping[When, str] = {"always": f"{_SAMPLING} stop in_memory tools"}
_HIGH, _XHIGH, _MAX = "low medium high", "low medium high xhigh", "low medium high xhigh max"

_GROK_4: Mapping[When, str] = {"always": "stop thinking"}

_CLAUDE_OLD = Capabilities(forced_tools=True, thinking=False, documents=True, json_schema=False, strict=False)
# Until 4.5 thinking has a budget, and excludes a required call.
_CLAUDE_BUDGET = replace(_CLAUDE_OLD, thinking=True, forced_while_thinking=False)
_CLAUDE_SCHEMA = replace(_CLAUDE_BUDGET, json_schema=True, strict=True)
# With adaptive thinking it worked in tests although the documentation excludes it: unknown.
_CLAUDE_ADAPTIVE = replace(_CLAUDE_SCHEMA, forced_while_thinking=None)
_CLAUDE_1M = sized(_CLAUDE_ADAPTIVE, 1_000_000, 128_000)
_CLAUDE_UNFORCED = sized(replace(_CLAUDE_SCHEMA, forced_tools=False), 1_000_000, 128_000)

_GEMINI = Capabilities(thinking=False, images=True, audio=True, documents=True)
_GEMINI_THINKING = replace(_GEMINI, thinking=True, forced_while_thinking=True)
_GEMINI_64K = sized(_GEMINI_THINKING, 1_048_576, 65_536)
_LEVELS = "minimal low medium high"

SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "openai": "developers.openai.com/api/docs/models, /api/docs/guides/reasoning, /api/docs/guides/latest-model",
        "anthropic": "platform.claude.com/docs/en/models, /docs/en/build-with-claude",
        "google": "ai.google.dev/gemini-api/docs/models, /docs/thinking",
        "mistral": "docs.mistral.ai/models",
        "groq": "console.groq.com/docs/models, /docs/reasoning",
        "deepseek": "api-docs.deepseek.com/guides/thinking_mode",
        "xai": "docs.x.ai/developers/models",
        "moonshot": "platform.kimi.ai/docs",
        "minimax": "platform.minimax.io/docs/api-reference/text-openai-api",
        "qwen": "help.aliyun.com/en/model-studio/deep-thinking",
        "zai": "docs.z.ai/api-reference/llm/chat-completion",
        "perplexity": "docs.perplexity.ai/models",
        "cohere": "docs.cohere.com/docs/models",
        "llama.cpp": "huggingface.co/HuggingFaceTB/SmolLM2-360M-Instruct",
        "anthropic-vertex": "docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude",
        "bedrock": "docs.aws.amazon.com/bedrock/latest/userguide/models-features.html",
    }
)
"""The pages that the rows of a provider are from."""

MODELS: tuple[ModelFamily, ...] = (
    ModelFamily("openai", "gpt-3.5*", sized(_GPT_OLD, 16_385, 4_096), left_out=_NO_THOUGHTS),
    ModelFamily("openai", "gpt-4, gpt-4-0613", sized(_GPT_OLD, 8_192, 8_192), left_out=_NO_THOUGHTS),
    ModelFamily("openai", "gpt-4-turbo*", sized(replace(_GPT_OLD, images=True), 128_000, 4_096), left_out=_NO_THOUGHTS),
    ModelFamily(
        "openai",
        "gpt-4o-2024-05-13",
        sized(replace(_GPT, json_schema=False), 128_000, 4_096),
        left_out=_NO_THOUGHTS,
    ),
    ModelFamily(
        "openai",
        "gpt-4o-audio*, gpt-4o-mini-audio*, gpt-audio*",
        Capabilities(audio=True, thinking=False),
        left_out=_NO_THOUGHTS,
        protocol="chat",
    ),
    ModelFamily(
        "openai", "gpt-4o-search-preview*, gpt-4o-mini-search-preview*", left_out=_NO_THOUGHTS, protocol="chat"
    ),
    ModelFamily(
        "openai",
        "gpt-4o, gpt-4o-20*, gpt-4o-mini, gpt-4o-mini-20*",
        sized(_GPT, 128_000, 16_384),
        left_out=_NO_THOUGHTS,
    ),
    ModelFamily("openai", "gpt-4.1*", sized(_GPT, 1_047_576, 32_768), left_out=_NO_THOUGHTS),
    ModelFamily("openai", "gpt-3*, gpt-4-*, gpt-4?*, chatgpt*", left_out=_NO_THOUGHTS),
    ModelFamily("openai", "o1-mini*", sized(_O1_FIRST, 128_000), _HIGH, left_out=_O_SERIES, protocol="chat"),
    ModelFamily("openai", "o1-preview*", sized(_O1_FIRST, 128_000), _HIGH, left_out=_O_SERIES),
    ModelFamily(
        "openai",
        "o1-pro*, o3-pro*, o3-deep-research*, o4-mini-deep-research*",
        _GPT_200K,
        _HIGH,
        left_out=_O_SERIES,
        protocol="responses",
    ),
    ModelFamily(
        "openai",
        "o3-mini*",
        sized(replace(_GPT_THINKING, images=False, documents=False), 200_000, 100_000),
        _HIGH,
        left_out=_O_SERIES,
    ),
    ModelFamily("openai", "o1*, o3*, o4-mini*", _GPT_200K, _HIGH, left_out=_O_SERIES, later="o[4-9]*"),
    ModelFamily("openai", "computer-use-preview*, gpt-daybreak*, gpt-rosalind*", protocol="responses"),
    ModelFamily(
        "openai",
        "gpt-5-chat*, gpt-5.?-chat*",
        Capabilities(images=True, audio=False, context_window=128_000),
        left_out=_NO_THOUGHTS,
    ),
    ModelFamily(
        "openai",
        "gpt-5-pro*",
        sized(_GPT_THINKING, 400_000, 272_000),
        "high",
        left_out=_THINKS_ALWAYS,
        protocol="responses",
    ),
    ModelFamily("openai", "gpt-5-search-api*", _GPT_400K, f"minimal {_HIGH}", left_out=_THINKS_ALWAYS, protocol="chat"),
    ModelFamily("openai", "gpt-5.1-codex-max*", _GPT_400K, _XHIGH, left_out=_THINKS_ALWAYS, protocol="responses"),
    ModelFamily(
        "openai", "gpt-5-codex*, gpt-5.1-codex*", _GPT_400K, _HIGH, left_out=_THINKS_ALWAYS, protocol="responses"
    ),
    ModelFamily("openai", "gpt-5.?-codex*", _GPT_400K, _XHIGH, left_out=_THINKS_ALWAYS, protocol="responses"),
    ModelFamily("openai", "gpt-*-codex*, codex-*", _GPT_THINKING, left_out=_THINKS_ALWAYS, protocol="responses"),
    ModelFamily("openai", "gpt-5, gpt-5-*", _GPT_400K, f"minimal {_HIGH}", left_out=_THINKS_ALWAYS),
    ModelFamily("openai", "gpt-5.2-pro*", _GPT_400K, "medium high xhigh", left_out=_THINKS_IF_ON, protocol="responses"),
    ModelFamily("openai", "gpt-5.1, gpt-5.1-*", _GPT_400K, f"none {_HIGH}", left_out=_THINKS_IF_ON),
    ModelFamily("openai", "gpt-5.[23], gpt-5.[23]-*", _GPT_400K, f"none {_XHIGH}", left_out=_THINKS_IF_ON),
    ModelFamily("openai", "gpt-5.4-pro*", _GPT_1M, "medium high xhigh", left_out=_GPT_5_4, protocol="responses"),
    ModelFamily("openai", "gpt-5.4-cyber*", _GPT_THINKING, f"none {_XHIGH}", left_out=_GPT_5_4, protocol="responses"),
    ModelFamily("openai", "gpt-5.4, gpt-5.4-20*", _GPT_1M, f"none {_XHIGH}", left_out=_GPT_5_4),
    ModelFamily("openai", "gpt-5.4-*", _GPT_THINKING, f"none {_XHIGH}", left_out=_GPT_5_4),
    ModelFamily("openai", "gpt-5.5-pro*", _GPT_1M, "medium high xhigh", left_out=_GPT_5_5, protocol="responses"),
    ModelFamily("openai", "gpt-5.5-cyber*", _GPT_1M, f"none {_XHIGH}", left_out=_GPT_5_5, protocol="responses"),
    ModelFamily("openai", "gpt-5.5*", _GPT_1M, f"none {_XHIGH}", left_out=_GPT_5_5),
    ModelFamily(
        "openai",
        "gpt-5.*-pro*",
        _GPT_1M,
        "medium high xhigh",
        left_out=_GPT_5_5,
        protocol="responses",
        traits="breakpoints",
    ),
    ModelFamily(
        "openai",
        "gpt-*-cyber*, gpt-*-rosalind*, gpt-6*-pro*",
        _GPT_THINKING,
        f"none {_MAX}",
        left_out=_GPT_5_5,
        protocol="responses",
        traits="breakpoints",
    ),
    ModelFamily(
        "openai",
        "gpt-*-astra-law*",
        _GPT_THINKING,
        _MAX,
        left_out=_GPT_6_ASTRA,
        protocol="responses",
        traits="breakpoints",
    ),
    ModelFamily(
        "openai",
        "gpt-6-astra*, gpt-6.1-sol*, gpt-6.2-*",
        _GPT_1M,
        _MAX,
        left_out=_GPT_6_ASTRA,
        traits="breakpoints",
        later="gpt-[7-9]*, gpt-[1-9][0-9]*",
    ),
    ModelFamily(
        "openai", "gpt-5.6*, gpt-6-*, gpt-6.1-*", _GPT_1M, f"none {_MAX}", left_out=_GPT_5_5, traits="breakpoints"
    ),
    ModelFamily("openai", "gpt-5.*, gpt-6*", _GPT_THINKING, f"none {_MAX}", left_out=_GPT_5_5, traits="breakpoints"),
    ModelFamily(
        "anthropic",
        "claude-fable-5-[1-9], claude-fable-5-[1-9]-*, claude-mythos-5-[2-9], claude-mythos-5-[2-9]-*",
        _CLAUDE_UNFORCED,
        thinking="effort",
        off="never",
        traits="thinks late_system binds_thoughts",
        later="claude-fable-*, claude-mythos-*",
        source="platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5",
    ),
    ModelFamily(
        "anthropic",
        "claude-fable-5*, claude-mythos-5, claude-mythos-5-[!2-9]*, claude-mythos-5-20*",
        _CLAUDE_UNFORCED,
        thinking="effort",
        off="never",
        traits="thinks late_system",
    ),
    ModelFamily("anthropic", "claude-mythos-preview*", thinking="effort", off="never", traits="thinks"),
    ModelFamily(
        "anthropic",
        "claude-opus-5-5*",
        _CLAUDE_UNFORCED,
        thinking="effort",
        off="never",
        traits="thinks late_system binds_thoughts",
        later="claude-opus-[5-9]*, claude-opus-[1-9][0-9]*",
        source="platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5",
    ),
    ModelFamily(
        "anthropic",
        "claude-sonnet-5-5*",
        _CLAUDE_UNFORCED,
        thinking="effort",
        off="between_tools",
        traits="thinks late_system binds_thoughts",
        later="claude-sonnet-[5-9]*, claude-sonnet-[1-9][0-9]*",
        source="platform.claude.com/docs/en/models/sonnet-5-5/whats-new-sonnet-5-5",
    ),
    ModelFamily(
        "anthropic",
        "claude-haiku-5-5*",
        replace(_CLAUDE_1M, forced_tools=None),
        thinking="effort",
        traits="thinks late_system binds_thoughts",
        later="claude-*-[5-9]*, claude-*-[1-9][0-9]*",
    ),
    ModelFamily(
        "anthropic",
        "claude-opus-5, claude-opus-5-[!1-9]*, claude-opus-5-20*",
        _CLAUDE_1M,
        thinking="effort",
        traits="thinks late_system",
    ),
    ModelFamily(
        "anthropic",
        "claude-sonnet-5, claude-sonnet-5-[!1-9]*, claude-sonnet-5-20*",
        _CLAUDE_1M,
        thinking="effort",
        traits="thinks",
    ),
    ModelFamily(
        "anthropic",
        "claude-opus-4-[89]*",
        sized(_CLAUDE_ADAPTIVE, None, 128_000),
        thinking="effort",
        traits="late_system",
        source="platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages",
    ),
    ModelFamily("anthropic", "claude-*-4-[789]*", sized(_CLAUDE_ADAPTIVE, None, 128_000), thinking="effort"),
    ModelFamily(
        "anthropic",
        "claude-opus-4-6*",
        sized(_CLAUDE_ADAPTIVE, None, 128_000),
        thinking="either",
        traits="one_of_two",
    ),
    ModelFamily("anthropic", "claude-sonnet-4-6*", _CLAUDE_ADAPTIVE, thinking="either", traits="one_of_two"),
    ModelFamily("anthropic", "claude-*-4-5*", sized(_CLAUDE_SCHEMA, 200_000, 64_000), traits="one_of_two"),
    ModelFamily("anthropic", "claude-opus-4-1*", sized(_CLAUDE_SCHEMA, 200_000, 32_000), traits="one_of_two"),
    ModelFamily("anthropic", "claude-sonnet-4-0, claude-sonnet-4-20*", sized(_CLAUDE_BUDGET, 200_000, 64_000)),
    ModelFamily("anthropic", "claude-opus-4-0, claude-opus-4-20*", sized(_CLAUDE_BUDGET, 200_000, 32_000)),
    ModelFamily("anthropic", "claude-3-7*", sized(_CLAUDE_BUDGET, 200_000, 64_000)),
    ModelFamily("anthropic", "claude-3-5*", sized(_CLAUDE_OLD, 200_000, 8_192)),
    ModelFamily("anthropic", "claude-3-*", sized(replace(_CLAUDE_OLD, documents=None), 200_000, 4_096)),
    ModelFamily("google", "gemini-2.0-flash*", sized(_GEMINI, 1_048_576, 8_192)),
    ModelFamily("google", "gemini-1.*, gemini-2.0*, gemma*, learnlm*", Capabilities(thinking=False)),
    ModelFamily("google", "gemini-2.5-pro*", _GEMINI_64K, thinking="budget", least=128),
    ModelFamily("google", "gemini-2.5-flash, gemini-2.5-flash-lite*", _GEMINI_64K, thinking="budget"),
    ModelFamily("google", "gemini-3-pro-preview", _GEMINI_64K, _HIGH, "effort"),
    ModelFamily("google", "gemini-3-flash-preview", _GEMINI_64K, _LEVELS, "effort"),
    # Of Gemini 4 so many tokens of one request; more if `max_tokens` says so (.../generate-content/long-decode).
    ModelFamily(
        "google",
        "gemini-3.8-flash*, gemini-4-argon*",
        _GEMINI_64K,
        _HIGH,
        "effort",
        later="gemini-[4-9]*, gemini-[1-9][0-9]*",
        source="ai.google.dev/gemini-api/docs/latest-model",
    ),
    ModelFamily(
        "google", "gemini-3-pro*, gemini-3.?-pro*, gemini-3.[79]-flash*, gemini-4*", _GEMINI_THINKING, _HIGH, "effort"
    ),
    ModelFamily("google", "gemini-3*", _GEMINI_THINKING, _LEVELS, "effort"),
    ModelFamily("google", "gemini-flash-latest, gemini-flash-lite-latest, gemini-pro-latest", _GEMINI_THINKING),
    ModelFamily("google", "gemini-robotics-er-*", Capabilities(thinking=True, images=True)),
    ModelFamily("mistral", "mistral-large-2512, ministral-*-2512", sized(SEEING, 256_000)),
    ModelFamily("mistral", "mistral-medium-3.5*", sized(SEEING_THINKING, 256_000)),
    ModelFamily("mistral", "mistral-medium-25*, mistral-small-25*", sized(SEEING, 128_000)),
    ModelFamily("mistral", "magistral-*-2509", sized(SEEING_THINKING, 128_000), thinking="mode"),
    ModelFamily("mistral", "magistral*", Capabilities(thinking=True), thinking="mode"),
    ModelFamily("mistral", "pixtral*", sized(SEEING, 128_000)),
    ModelFamily("mistral", "codestral*", TEXT),
    ModelFamily("mistral", "voxtral*", Capabilities(thinking=False, audio=True)),
    ModelFamily(
        "groq",
        "gpt-oss-20b, gpt-oss-120b",
        sized(replace(TEXT_THINKING, json_schema=True), 131_072, 65_536),
        _HIGH,
        traits="runs_tools",
    ),
    ModelFamily("groq", "gpt-oss*", TEXT_THINKING, _HIGH, traits="runs_tools"),
    ModelFamily("groq", "compound*", traits="compound"),
    ModelFamily("groq", "kimi-k2-instruct, gemma2-*", TEXT),
    ModelFamily("groq", "qwen3.*", Capabilities(thinking=True)),
    ModelFamily("groq", "llama-4-*", sized(replace(SEEING, json_schema=True), 131_072, 8_192)),
    ModelFamily("groq", "kimi-k2-instruct-0905", sized(replace(TEXT, json_schema=True), 262_144, 16_384)),
    ModelFamily("groq", "llama-3.3-70b-versatile", sized(replace(TEXT, json_schema=False), 131_072, 32_768)),
    ModelFamily("groq", "llama-3.1-8b-instant", sized(replace(TEXT, json_schema=False), 131_072, 131_072)),
    ModelFamily("groq", "qwen3-32b", sized(replace(TEXT_THINKING, json_schema=False), 131_072, 40_960)),
    ModelFamily(
        "deepseek", "deepseek-v4*, deepseek-flash*", sized(TEXT_THINKING, 1_000_000, 384_000), "none low high max"
    ),
    ModelFamily(
        "xai",
        "grok-4.5*",
        sized(SEEING_THINKING, 500_000),
        left_out={"always": "stop", "if_off": "thinking"},
    ),
    ModelFamily(
        "xai",
        "grok-4.6*",
        SEEING_THINKING,
        left_out={"always": "stop", "if_off": "thinking"},
        later="grok-4.[7-9]*, grok-[5-9]*",
    ),
    ModelFamily("xai", "grok-4*multi-agent*", sized(SEEING_THINKING, 2_000_000), left_out={"always": "stop"}),
    ModelFamily("xai", "grok-4.3*", sized(SEEING_THINKING, 1_000_000), left_out={"always": "stop"}),
    # Until 4.3 to think, or not to, was the name of another model.
    ModelFamily(
        "xai",
        "grok-4-fast-non*, grok-4-1-fast-non*, grok-4.20*non-reasoning*",
        sized(SEEING, 2_000_000),
        left_out={"always": "thinking"},
    ),
    ModelFamily(
        "xai", "grok-4-fast*, grok-4-1-fast*, grok-4.20*reasoning*", sized(SEEING_THINKING, 2_000_000), left_out=_GROK_4
    ),
    ModelFamily("xai", "grok-4, grok-4-0709, grok-4-latest", sized(SEEING_THINKING, 256_000), left_out=_GROK_4),
    ModelFamily("xai", "grok-4*-non-reasoning*", left_out={"always": "thinking"}),
    ModelFamily("xai", "grok-code-fast*", sized(TEXT_THINKING, 256_000), left_out=_GROK_4),
    ModelFamily("xai", "grok-4-*, grok-4.[12]*, grok-build*", left_out=_GROK_4),
    ModelFamily(
        "xai", "grok-3-mini*", sized(TEXT_THINKING, 131_072), left_out={"always": "stop", "if_off": "thinking"}
    ),
    ModelFamily("xai", "grok-3*", sized(TEXT, 131_072), left_out={"always": "thinking"}),
    ModelFamily("moonshot", "kimi-k3*", sized(SEEING_THINKING, 1_048_576), "low high max", later="kimi-k[4-9]*"),
    ModelFamily("moonshot", "kimi-k2.7-code*", sized(SEEING_THINKING, 262_144), left_out={"if_off": "thinking"}),
    ModelFamily("moonshot", "kimi-k2.[5-9]*", sized(SEEING_THINKING, 262_144)),
    ModelFamily("moonshot", "moonshot-v1-*vision*", SEEING),
    ModelFamily("moonshot", "moonshot-v1-8k", sized(TEXT, 8_192)),
    ModelFamily("moonshot", "moonshot-v1-32k", sized(TEXT, 32_768)),
    ModelFamily("moonshot", "moonshot-v1-128k", sized(TEXT, 131_072)),
    ModelFamily(
        "minimax",
        "minimax-m1*, minimax-m2*",
        replace(TEXT_THINKING, json_schema=False),
        left_out={"if_off": "thinking"},
    ),
    ModelFamily("minimax", "minimax-m*", Capabilities(thinking=True, json_schema=False)),
    # "Thinking-only mode".
    ModelFamily("qwen", "qwen*-vl-*-thinking*", replace(SEEING, thinking=True), left_out={"if_off": "thinking"}),
    ModelFamily("qwen", "qwq*, qvq*, *-thinking*", Capabilities(thinking=True), left_out={"if_off": "thinking"}),
    ModelFamily("qwen", "qwen3-max*", Capabilities(images=False, context_window=262_144, max_output=65_536)),
    ModelFamily("qwen", "qwen3.7-max*", TEXT_THINKING),
    ModelFamily("qwen", "qwen3.8-max*", SEEING_THINKING),
    ModelFamily("qwen", "qwen*-vl-*", Capabilities(images=True)),
    ModelFamily("zai", "glm-4, glm-4-*, glm-4.5*, glm-4v*", left_out={"always": "tool_stream"}),
    ModelFamily("perplexity", "sonar", sized(SEEING, 128_000)),
    ModelFamily("perplexity", "sonar-pro", sized(SEEING, 200_000)),
    ModelFamily(
        "perplexity", "sonar-reasoning*, sonar-deep-research", Capabilities(thinking=True, context_window=128_000)
    ),
    ModelFamily("cohere", "command-a-plus*", SEEING_THINKING),
    ModelFamily("cohere", "command-a-reasoning*", sized(TEXT_THINKING, 256_000, 32_000)),
    ModelFamily("cohere", "command-a-vision*", sized(SEEING, 128_000, 8_000)),
    ModelFamily("cohere", "command-a-translate*", sized(TEXT, 16_000, 8_000)),
    ModelFamily("cohere", "command-a*", sized(TEXT, 256_000, 8_000)),
    ModelFamily("cohere", "command-r7b*", sized(TEXT, 128_000, 4_000)),
    # `tool_choice` begins with Command R7B.
    ModelFamily("cohere", "command-r*", sized(replace(TEXT, forced_tools=False), 128_000, 4_000)),
    ModelFamily("llama.cpp", "smollm2", replace(TEXT, audio=False, documents=False)),
)
"""The rows of all providers but the clouds: see `model_rows`."""


@lru_cache(maxsize=256)
def listed_family(provider: str, model: str, *, own: bool = True) -> ModelFamily | None:
    """Return the row of a model of any provider but the clouds, if it has one.

    `own`: the request goes to the vendor's own address, where the newest row of its kind is for a name that none has.
    """
    return family_of([row for row in MODELS if row.provider == provider], name_in_rows(provider, model), own=own)


def family_of(rows: Sequence[ModelFamily], name: str, *, own: bool) -> ModelFamily | None:
    """Return the first row that fits a name, or else, if `own`, the one that is for later names."""
    found = next((row for row in rows if row.fits(name)), None)
    if found is None and own:
        found = next((row for row in rows if row.later and fits(name, row.later)), None)
    return found


def name_in_rows(provider: str, model: str) -> str:
    """Return the name as patterns have it: without the prefix of a cloud or of an owner, in lower case."""
    name = model.rpartition("/")[2].lower()
    if provider in ("anthropic", "anthropic-vertex"):
        return re.sub("[@.]", "-", name)  # clouds and gateways write `@` before the date, and 5.5
    return name[3:].partition(":")[0] if name.startswith("ft:") else name  # of what it was fine-tuned from
