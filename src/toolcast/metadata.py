"""What is known about a model: its name, and what it can do.

The facts about models that toolcast knows stand in one table, providers/model_features.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .providers.base import Mode

Progress: TypeAlias = Callable[[int, int], object]
"""Called while a model is fetched, with the bytes that are there and the bytes there will be."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do; None: not known.

    `tools`: it can be given tools. `forced_tools`: it can be made to call one; `forced_while_thinking`: also while it
    thinks. `parallel`: it can make several calls in one answer. `thinking`: it can think before it answers.
    `images`, `audio`, `documents`: what it can be shown. `json_schema`: its text can be held to a JSON schema;
    `strict`: so can the arguments of its calls. `context_window`, `max_output`: in tokens. `known`: the model itself
    is known, and not only its provider.
    """

    tools: bool | None = None
    forced_tools: bool | None = None
    forced_while_thinking: bool | None = None
    parallel: bool | None = None
    thinking: bool | None = None
    images: bool | None = None
    audio: bool | None = None
    documents: bool | None = None
    json_schema: bool | None = None
    strict: bool | None = None
    context_window: int | None = None
    max_output: int | None = None
    known: bool = False

    def corrected(self, by: Capabilities | None) -> Capabilities:
        """These capabilities, but for what `by` knows better."""
        if by is None:
            return self
        told = {name: value for name in _FACTS if (value := getattr(by, name)) is not None}
        return replace(self, **told, known=self.known or by.known)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The ways to a structured answer that are not known to fail, best first."""
        best = best_mode(self, forced=True, thinking=False)
        ways: dict[Mode, bool] = {
            best: True,
            "tool_call": self.tools is not False,
            "json_schema": self.json_schema is not False,
            "prompted": True,
        }
        return tuple(way for way, works in ways.items() if works)


_FACTS = tuple(field.name for field in fields(Capabilities) if field.name != "known")


def best_mode(capabilities: Capabilities, *, forced: bool, thinking: bool) -> Mode:
    """How a structured answer is best asked for: by a tool, by a schema, or, where there is neither, in words.

    `forced`: a call must be made; `thinking`: the model is asked to think. What is known to work beats what may work.
    Where a tool is offered but cannot be forced, the model may answer in text, and be asked again.
    """
    if capabilities.tools is False:
        return "json_schema" if capabilities.json_schema else "prompted"
    can = capabilities.forced_tools
    if thinking and can:
        can = capabilities.forced_while_thinking
    return "json_schema" if forced and not can and capabilities.json_schema else "tool_call"


@dataclass(frozen=True, slots=True)
class LLMMetadata:
    """What is known about a model, and what it can do; None: unknown. `context_window` is in tokens."""

    model_name: str
    provider: str = "custom"
    is_function_calling_model: bool = True
    context_window: int | None = None
    capabilities: Capabilities = field(default=Capabilities(), compare=False)  # no part of which model it is
