"""Look-ups in the table of model families, by the name of a model.

The first row that matches a name applies. A model without a row has the defaults of its provider and `known=False`; at
the vendor's own address it takes the newest row of its kind. Users override facts with `capabilities=` of an LLM.

The models of the clouds and their capabilities: Amazon Bedrock, and Claude on Vertex AI.

They are rows of the table of model_table.py, in a module of their own because they are long and made of others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

from ..values.capabilities import Capabilities
from .chat_completions.services import LLAMA_CPP, LM_STUDIO, SERVICES, ServiceSpec
from .model_table import (
    MODELS,
    NO_TOOLS,
    OWN_DEFAULTS,
    SEEING,
    SOURCES,
    TEXT,
    TEXT_THINKING,
    ModelFamily,
    family_of,
    fits,
    listed_family,
    name_in_rows,
    sized,
)

_TOOLS = Capabilities(tools=True, forced_tools=True, audio=False)
_OFFERED = Capabilities(tools=True, forced_tools=False, forced_while_thinking=False, audio=False)
_NOVA = replace(_TOOLS, images=True, documents=True, thinking=False, json_schema=False)
_CHAT = replace(NO_TOOLS, thinking=False, images=False, audio=False)


def _claude_on_bedrock() -> Iterator[ModelFamily]:
    """Yield the rows of Claude on Bedrock: those of Anthropic, with what all its models have."""
    for row in MODELS:
        if row.provider == "anthropic":
            facts = row.facts
            if row.models == "claude-opus-4-1*":  # structured outputs begin with 4.5 there (user guide)
                facts = replace(facts, json_schema=False, strict=False)
            names = ", ".join(f"anthropic.{name}" for name in row.models.split(", "))
            later = ", ".join(f"anthropic.{name}" for name in row.later.split(", ") if name)
            facts = OWN_DEFAULTS["anthropic"].corrected(facts)
            yield row._replace(provider="bedrock", models=names, later=later, facts=facts)


BEDROCK: tuple[ModelFamily, ...] = (
    *_claude_on_bedrock(),
    ModelFamily("bedrock", "amazon.nova-2-lite*", sized(replace(_NOVA, thinking=True), 1_000_000)),
    ModelFamily("bedrock", "amazon.nova-premier*", sized(_NOVA, 1_000_000)),
    ModelFamily("bedrock", "amazon.nova-pro*, amazon.nova-lite*", sized(_NOVA, 300_000)),
    ModelFamily("bedrock", "amazon.nova-micro*", sized(replace(_NOVA, images=False, documents=False), 128_000)),
    ModelFamily("bedrock", "amazon.titan-text*", _CHAT),
    ModelFamily("bedrock", "meta.llama3-8b*, meta.llama3-70b*", sized(_CHAT, 8_192)),
    ModelFamily("bedrock", "meta.llama3-2-1b*, meta.llama3-2-3b*", sized(_CHAT, 128_000)),
    ModelFamily("bedrock", "meta.llama3-2-*", sized(replace(_OFFERED, images=True, thinking=False), 128_000)),
    ModelFamily(
        "bedrock", "meta.llama3-1-*, meta.llama3-3-*", sized(replace(_OFFERED, images=False, thinking=False), 128_000)
    ),
    ModelFamily("bedrock", "meta.llama4-scout*", sized(replace(_OFFERED, images=True, thinking=False), 10_000_000)),
    ModelFamily("bedrock", "meta.llama4-*", sized(replace(_OFFERED, images=True, thinking=False), 1_000_000)),
    ModelFamily("bedrock", "mistral.mistral-7b*, mistral.mixtral-8x7b*", sized(_CHAT, 32_000)),
    ModelFamily("bedrock", "mistral.mistral-large-24*", sized(replace(_TOOLS, images=False, thinking=False), None)),
    ModelFamily("bedrock", "mistral.pixtral-large*", sized(replace(_TOOLS, images=True, thinking=False), 128_000)),
    ModelFamily("bedrock", "mistral.mistral-large-3*", sized(replace(SEEING, json_schema=True), 256_000)),
    ModelFamily(
        "bedrock",
        "openai.gpt-oss*",
        sized(replace(TEXT_THINKING, json_schema=True, tools=True, forced_tools=True), 128_000),
    ),
    ModelFamily("bedrock", "deepseek.r1*", sized(replace(_CHAT, thinking=True), 128_000)),
    ModelFamily("bedrock", "deepseek.v3*", replace(_TOOLS, images=False)),
    ModelFamily("bedrock", "qwen.qwen3-vl*", replace(SEEING, tools=True)),
    ModelFamily("bedrock", "qwen.qwen3*", replace(TEXT, tools=True)),
    ModelFamily("bedrock", "cohere.command-r*", sized(replace(TEXT, tools=True), 128_000)),
    ModelFamily("bedrock", "writer.palmyra-x5*", Capabilities(tools=True, context_window=1_000_000)),
    ModelFamily("bedrock", "writer.palmyra-x4*", Capabilities(tools=True, context_window=128_000)),
)
"""The models of Amazon Bedrock, by the vendor in their ids. Sources: the user guide of Bedrock ("Supported models and
model features"), the API reference of `ToolChoice`, and for the context windows the list of genai-prices."""

# An organization has to allow JSON schemas on Vertex AI first (docs.cloud.google.com/vertex-ai/generative-ai/docs/
# partner-models/claude/structured_outputs), so they are not chosen by themselves.
CLAUDE_ON_VERTEX: tuple[ModelFamily, ...] = tuple(
    row._replace(
        provider="anthropic-vertex",
        facts=replace(row.facts, json_schema=row.facts.json_schema and None, strict=row.facts.strict and None),
    )
    for row in MODELS
    if row.provider == "anthropic"
)


_CLOUDS = frozenset(("anthropic-vertex", "bedrock"))


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
        **OWN_DEFAULTS,
        # They accept a required tool choice, but many of their models call no tool; a schema is enforced.
        "llama.cpp": replace(of_service(LLAMA_CPP), forced_tools=False, forced_while_thinking=False),
        "lmstudio": replace(of_service(LM_STUDIO), forced_tools=None, forced_while_thinking=None),
    }
)
"""The defaults of providers that the services table does not describe, or not fully."""


@lru_cache(maxsize=256)
def model_family(provider: str, model: str, *, own: bool = True) -> ModelFamily | None:
    """Return the row of a model, if it has one; see `listed_family`."""
    if provider in _CLOUDS:
        return family_of(model_rows(provider), _cloud_name(provider, model), own=own)
    return listed_family(provider, model, own=own)


@lru_cache(maxsize=256)
def model_capabilities(provider: str, model: str, *, own: bool = True) -> Capabilities:
    """Return the capabilities of a model; the provider's defaults for a model without a row."""
    row = model_family(provider, model, own=own)
    if row is None:
        return provider_defaults(provider)
    return replace(_with_defaults(row), known=row.fits(_cloud_name(provider, model)))


def family_text(provider: str, model: str, *, own: bool = True) -> str | None:
    """Return which row a model has, and the page that the row is from; None without a row."""
    row = model_family(provider, model, own=own)
    if row is None:
        return None
    newest = "" if row.fits(_cloud_name(provider, model)) else ", the newest of its kind"
    return f"{provider} {row.models}{newest} ({row.source or SOURCES[provider]})"


def claude_family(model: str, *, own: bool = True) -> ModelFamily | None:
    """Return the row of a model of Anthropic by its name, or by its name on a cloud."""
    return model_family("anthropic", model[max(0, model.find("claude-")) :], own=own)


def _cloud_name(provider: str, model: str) -> str:
    return bedrock_model_name(model) if provider == "bedrock" else name_in_rows(provider, model)


def model_rows(provider: str) -> Sequence[ModelFamily]:
    """Return the rows of a provider; the first that matches a name applies."""
    if provider in _CLOUDS:
        # Made on first use: other programs need not wait for the long tables of the clouds.

        return BEDROCK if provider == "bedrock" else CLAUDE_ON_VERTEX
    return [row for row in MODELS if row.provider == provider]


def bedrock_model_name(model: str) -> str:
    """Return the id of a model of Amazon Bedrock, `vendor.name`, from an ARN or the id of an inference profile.

    Inference profiles of AWS have the id of their model after that of a region (`us.`, `eu.`, `apac.`, `global.`). The
    name of a profile of one's own says nothing of its model.
    """
    return re.sub(r"^(?:[a-z]{2}|us-gov|apac|global)\.(?=[a-z0-9]+\.)", "", model.rpartition("/")[2].lower())


def provider_of(model: str) -> str | None:
    """Return the first provider, Ollama excepted, that has a row for a model of this name; None if there is none."""
    for provider in dict.fromkeys(row.provider for row in MODELS if row.provider != "ollama"):
        if any(row.fits(model) or (row.later and fits(model, row.later)) for row in model_rows(provider)):
            return provider
    return None


def provider_defaults(provider: str) -> Capabilities:
    """Return the capabilities that all models of a provider have."""
    if provider in PROVIDER_DEFAULTS:
        return PROVIDER_DEFAULTS[provider]
    return of_service(SERVICES[provider]) if provider in SERVICES else Capabilities()


def all_capabilities() -> Iterator[tuple[str, str, Capabilities]]:
    """Yield provider, model patterns and capabilities of all rows; last of each provider `*`, its other models."""
    for provider in sorted({*PROVIDER_DEFAULTS, *SERVICES}):
        yield from ((provider, row.models, _with_defaults(row)) for row in model_rows(provider))
        yield provider, "*", provider_defaults(provider)


def _with_defaults(row: ModelFamily) -> Capabilities:
    return replace(provider_defaults(row.provider).corrected(row.facts), known=True)
