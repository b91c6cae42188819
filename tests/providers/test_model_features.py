"""The table of models: consistent, honest about what it does not know, and overruled by its user."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from support.albums import Album
from toolcast import Anthropic, Google, Ollama, OpenAI, OpenAICompatible, Settings, ToolOrchestratingLLM
from toolcast.llms import LLMMetadata
from toolcast.llms.http_llm import ServiceLLM
from toolcast.providers.chat_completions.services import SERVICES
from toolcast.providers.model_features import (
    PROVIDER_DEFAULTS,
    all_capabilities,
    model_capabilities,
    model_family,
    model_rows,
    provider_defaults,
)
from toolcast.providers.model_table import SOURCES, ModelFamily
from toolcast.providers.refused_settings import EFFORTS
from toolcast.values.capabilities import Capabilities

ROWS = [row for provider in sorted({*PROVIDER_DEFAULTS, *SERVICES}) for row in model_rows(provider)]

every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.provider}:{row.models}")
FACTS = [field.name for field in dataclasses.fields(Capabilities) if field.name != "known"]
THREE = (True, False, None)


def example(pattern: str) -> str:
    """A name that fits the pattern."""
    plain = re.sub(r"\[(!?)(.)[^\]]*\]", lambda found: "v" if found[1] else found[2], pattern)
    return plain.replace("?", "8").replace("*", "")


@every_row
def test_a_row_is_consistent(row: ModelFamily) -> None:
    assert row.provider in {*PROVIDER_DEFAULTS, *SERVICES}
    text = model_capabilities(row.provider, example(row.models.split(", ")[0]))
    assert text.known
    assert not (text.tools is False and (text.forced_tools or text.parallel or text.strict))
    assert not (text.forced_tools is False and text.forced_while_thinking)
    assert (text.max_output or 0) <= (text.context_window or 1 << 40)
    assert all(pattern == pattern.strip().lower() for pattern in row.models.split(", "))


@every_row
def test_no_row_stands_in_the_shadow_of_another(row: ModelFamily) -> None:
    """A name made from a pattern finds its own row, not one above that would make it useless."""
    for pattern in row.models.split(", "):
        found = next(other for other in model_rows(row.provider) if other.fits(example(pattern)))
        assert found is row, pattern


@every_row
def test_later_names_have_no_row_of_their_own(row: ModelFamily) -> None:
    """They take this one at the vendor's own address, and elsewhere what is known of all its models."""
    for pattern in filter(None, row.later.split(", ")):
        name = example(pattern) + "9x"
        if model_family(row.provider, name, own=False) is None:
            assert model_family(row.provider, name) is row, pattern
            found = model_capabilities(row.provider, name)
            assert (found.known, found.context_window) == (False, row.facts.context_window)
            assert model_capabilities(row.provider, name, own=False) == provider_defaults(row.provider)


@every_row
def test_what_is_left_out_is_left_out_in_time(row: ModelFamily) -> None:
    efforts = row.efforts.split()
    assert sorted(efforts, key=EFFORTS.index) == efforts
    for when, names in row.left_out.items():
        assert when in ("always", "unless_off", "if_on", "if_off")
        assert ("none" in efforts or when not in ("unless_off", "if_off")) or not efforts or row.protocol
        assert set(names.split()) <= row.limits("none" if when == "if_off" else "high")
    assert row.source or row.provider in SOURCES


@every_row
def test_a_row_adds_to_the_defaults(row: ModelFamily) -> None:
    text = model_capabilities(row.provider, example(row.models.split(", ")[0]))
    for name in FACTS:
        own, others = getattr(row.facts, name), getattr(provider_defaults(row.provider), name)
        assert getattr(text, name) == (others if own is None else own)


@pytest.mark.parametrize(
    ("provider", "model", "facts"),
    [
        ("openai", "gpt-4o-2024-05-13", {"json_schema": False, "strict": True, "context_window": 128_000}),
        ("openai", "gpt-4o-2024-08-06", {"json_schema": True, "thinking": False, "max_output": 16_384}),
        ("openai", "o3", {"thinking": True, "context_window": 200_000}),
        ("openai", "gpt-5-mini", {"thinking": True, "context_window": 400_000}),
        ("openai", "gpt-6-luna", {"thinking": True, "context_window": 1_050_000}),
        ("openai", "gpt-6-astra", {"context_window": 1_050_000, "max_output": 128_000}),
        ("openai", "gpt-6.1-terra", {"context_window": 1_050_000, "max_output": 128_000}),
        ("openai", "gpt-6.3-nova", {"thinking": True, "context_window": None}),
        ("google", "gemini-3.8-flash", {"thinking": True, "context_window": 1_048_576}),
        ("google", "gemini-4-argon", {"thinking": True, "context_window": 1_048_576}),
        ("moonshot", "kimi-k3", {"thinking": True, "context_window": 1_048_576}),
        ("anthropic", "claude-3-5-haiku-20241022", {"json_schema": False, "thinking": False, "forced_tools": True}),
        ("anthropic", "claude-sonnet-4-20250514", {"json_schema": False, "forced_while_thinking": False}),
        ("anthropic", "claude-haiku-4-5", {"json_schema": True, "context_window": 200_000, "max_output": 64_000}),
        ("anthropic", "claude-opus-4-8", {"json_schema": True, "forced_tools": True, "forced_while_thinking": None}),
        ("anthropic", "claude-opus-5", {"forced_tools": True, "context_window": 1_000_000}),
        ("anthropic", "claude-opus-5-5", {"forced_tools": False, "json_schema": True}),
        ("anthropic", "claude-fable-5", {"forced_tools": False, "json_schema": True, "strict": True}),
        ("anthropic", "claude-haiku-5-5", {"forced_tools": None, "json_schema": True}),
        ("google", "models/gemini-2.5-flash", {"thinking": True, "audio": True, "context_window": 1_048_576}),
        ("groq", "openai/gpt-oss-120b", {"json_schema": True, "images": False}),
        ("deepseek", "deepseek-v4-pro", {"forced_tools": True, "forced_while_thinking": False, "json_schema": False}),
        ("perplexity", "Sonar-Pro", {"tools": False, "json_schema": True, "context_window": 200_000}),
    ],
)
def test_models_that_are_known(provider: str, model: str, facts: dict[str, object]) -> None:
    known = model_capabilities(provider, model)
    assert known.known
    assert {name: getattr(known, name) for name in facts} == facts


@pytest.mark.parametrize("provider", [*PROVIDER_DEFAULTS, *SERVICES, "unknown"])
def test_a_model_that_is_not_known_is_no_more_than_usual(provider: str) -> None:
    found = model_capabilities(provider, "unknown/nothing-1")
    assert found == provider_defaults(provider)
    assert not found.known
    assert (found.context_window, found.max_output, found.images in (None, True)) == (None, None, True)


def test_a_provider_that_is_not_known_is_known_for_nothing() -> None:
    assert model_capabilities("unknown", "gpt-4o") == Capabilities()


def test_everything_ends_each_provider_with_its_other_models() -> None:
    rows = list(all_capabilities())
    assert len(rows) == len(ROWS) + len({*PROVIDER_DEFAULTS, *SERVICES})
    providers = [provider for provider, _, _ in rows]
    assert providers == sorted(providers)
    for (provider, models, known), (following, _, _) in zip(rows, [*rows[1:], ("", "", None)], strict=True):
        assert (models == "*") == (provider != following)
        assert known.known == (models != "*")


def test_corrections_override_the_table() -> None:
    known = model_capabilities("openai", "gpt-4o")
    assert known.corrected(None) is known
    text = known.corrected(Capabilities(json_schema=False, context_window=10))
    assert text == dataclasses.replace(known, json_schema=False, context_window=10)
    assert Capabilities().corrected(Capabilities(known=True)).known


def test_an_llm_knows_its_model() -> None:
    assert OpenAI("gpt-4.1").metadata.capabilities == model_capabilities("openai", "gpt-4.1")
    assert OpenAI("gpt-4.1").metadata.context_window == 1_047_576
    assert OpenAICompatible("sonar", service="perplexity").metadata.capabilities.tools is False
    assert not Ollama("my-own").metadata.capabilities.known
    assert LLMMetadata("m").capabilities == Capabilities()


@pytest.mark.parametrize(
    ("make", "name", "field", "sent", "newest"),
    [
        (OpenAI, "gpt-9", "temperature", (0.5, None), "gpt-6-astra*"),
        (Anthropic, "claude-opus-9", "max_tokens", (4_096, 32_000), "claude-opus-5-5*"),
        (Google, "gemini-9-flash", "model", (None, None), "gemini-3.8-flash*"),
        (partial(OpenAICompatible, service="xai"), "grok-9", "temperature", (0.5, 0.5), "grok-4.6*"),
    ],
)
def test_a_model_newer_than_the_table(
    make: Callable[..., ServiceLLM], name: str, field: str, sent: tuple[Any, Any], newest: str
) -> None:
    """It is taken for the newest of its kind at the address of its vendor, and for nothing in particular elsewhere."""
    own, elsewhere = make(name, api_key="k"), make(name, api_key="k", base_url="http://localhost:1/v1")
    assert elsewhere.metadata.family is None
    assert elsewhere.metadata.capabilities.thinking is None
    assert f" {newest}" in str(own.metadata.family)
    assert "the newest of its kind" in str(own.metadata.family)
    assert own.metadata.capabilities.thinking
    assert not own.metadata.capabilities.known
    previews = [
        ToolOrchestratingLLM(Album, "An album", llm, settings=Settings(temperature=0.5)).preview()
        for llm in (elsewhere, own)
    ]
    assert tuple(preview.body.get(field) for preview in previews) == sent
    assert previews[1].family == own.metadata.family


@pytest.mark.parametrize(
    ("make", "name", "url"),
    [
        (Anthropic, "claude-opus-9", "https://api.anthropic.com/v1"),
        (Google, "gemini-9-flash", "https://generativelanguage.googleapis.com/v1beta"),
        (OpenAI, "gpt-9", "https://eu.api.openai.com/v1"),
    ],
)
def test_the_address_of_the_vendor_may_be_named(make: Callable[..., ServiceLLM], name: str, url: str) -> None:
    own = make(name, api_key="k").metadata.family
    assert own is not None
    assert make(name, api_key="k", base_url=url).metadata.family == own
    assert make(name, api_key="k", base_url="https://api.openai.com.example/v1").metadata.family is None


def test_what_a_model_was_fine_tuned_from() -> None:
    assert model_capabilities("openai", "ft:gpt-4o-mini-2024-07-18:org::id") == model_capabilities("openai", "gpt-4o")


def test_capabilities_override_the_table() -> None:
    text = Ollama("my-own", capabilities=Capabilities(tools=True, context_window=8_192)).metadata
    assert (text.capabilities.tools, text.capabilities.json_schema, text.context_window) == (True, True, 8_192)
