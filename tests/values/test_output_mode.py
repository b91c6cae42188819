"""The output mode that is chosen for a model's capabilities."""

from __future__ import annotations

from itertools import product

import pytest

from toolcast.llms import Capabilities
from toolcast.providers.model_features import model_capabilities
from toolcast.values.output_mode import best_mode

THREE = (True, False, None)


@pytest.mark.parametrize(("tools", "forced", "thinking"), list(product(THREE, (True, False), (True, False))))
@pytest.mark.parametrize(("can", "schema"), list(product(THREE, THREE)))
def test_the_best_mode(tools: bool | None, forced: bool, thinking: bool, can: bool | None, schema: bool | None) -> None:
    both = Capabilities(tools, forced_tools=can, forced_while_thinking=can, json_schema=schema)
    mode = best_mode(both, forced=forced, thinking=thinking)
    if tools is False:
        assert mode == ("json_schema" if schema else "prompted")
    elif not forced or can:
        assert mode == "tool_call"
    else:
        assert mode == ("json_schema" if schema else "tool_call")


def test_thinking_counts_if_it_excludes_forced_tools() -> None:
    claude = model_capabilities("anthropic", "claude-sonnet-4-5")
    assert [best_mode(claude, forced=True, thinking=on) for on in (False, True)] == ["tool_call", "json_schema"]
    deepseek = model_capabilities("deepseek", "deepseek-v4-pro")
    assert best_mode(deepseek, forced=True, thinking=True) == "tool_call"


@pytest.mark.parametrize(
    ("provider", "model", "mode"),
    [
        ("openai", "gpt-5.4", "tool_call"),
        ("anthropic", "claude-opus-5-5", "json_schema"),
        ("ollama", "qwen3", "json_schema"),
        ("perplexity", "sonar", "json_schema"),
        ("openai", "o1-mini", "prompted"),
        ("moonshot", "kimi-k2.6", "tool_call"),
        ("zai", "glm-5", "tool_call"),
        ("openai-compatible", "m", "tool_call"),
    ],
)
def test_the_mode_of_a_forced_tool(provider: str, model: str, mode: str) -> None:
    assert best_mode(model_capabilities(provider, model), forced=True, thinking=False) == mode


@pytest.mark.parametrize(
    ("facts", "modes"),
    [
        (Capabilities(), ("tool_call", "json_schema", "prompted")),
        (Capabilities(tools=False, json_schema=True), ("json_schema", "prompted")),
        (Capabilities(tools=False, json_schema=False), ("prompted",)),
        (Capabilities(tools=True, forced_tools=False, json_schema=True), ("json_schema", "tool_call", "prompted")),
        (Capabilities(tools=True, json_schema=False), ("tool_call", "prompted")),
    ],
)
def test_the_usable_modes_are_ordered_best_first(facts: Capabilities, modes: tuple[str, ...]) -> None:
    assert facts.modes == modes
