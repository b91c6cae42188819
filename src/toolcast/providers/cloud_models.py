"""The models of the clouds and their capabilities: Amazon Bedrock, and Claude on Vertex AI.

They are rows of the table of model_table.py, in a module of their own because they are long and made of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..capabilities import Capabilities
from .model_table import (
    MODELS,
    NO_TOOLS,
    OWN_DEFAULTS,
    SEEING,
    TEXT,
    TEXT_THINKING,
    ModelFamily,
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
