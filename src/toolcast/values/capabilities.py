"""The description of a model: its name and its capabilities.

The table of models and their capabilities is providers/model_table.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields, replace
from typing import TypeAlias

from ..lazy.lazy_dataclasses import changes_repr, dataclass
from .output_mode import OutputMode, usable_modes

Progress: TypeAlias = Callable[[int, int], object]
"""A callback for the progress of a download: the bytes downloaded so far, and the bytes in total."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a model. None: unknown.

    Args:
        tools: It accepts tools.
        forced_tools: It can be required to call a tool.
        forced_while_thinking: The same while thinking is enabled.
        parallel: It can make several tool calls in one response.
        thinking: It can think before it answers.
        images: It accepts images.
        audio: It accepts audio.
        documents: It accepts documents.
        json_schema: The text of its response can be constrained to a JSON schema.
        strict: The arguments of its tool calls can be constrained to their schema.
        context_window: The size of its context window in tokens.
        max_output: The most tokens of one response.
        known: The model itself is in the table of models, and not only its provider.
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

    __repr__ = changes_repr

    def corrected(self, by: Capabilities | None) -> Capabilities:
        """Return these capabilities, overridden by those of `by` that are not None."""
        if by is None:
            return self
        overrides = {name: value for name in _FACTS if (value := getattr(by, name)) is not None}
        return replace(self, **overrides, known=self.known or by.known)

    @property
    def modes(self) -> tuple[OutputMode, ...]:
        """The output modes that are not certain to fail, best first."""
        return usable_modes(self)


_FACTS = tuple(field.name for field in fields(Capabilities) if field.name != "known")


@dataclass(frozen=True, slots=True)
class LLMMetadata:
    """The description of an LLM's model.

    `context_window` is in tokens; None: unknown. `base_model` is the model behind the name of a deployment. `family` is
    the row of the table of models that applies, with the page that it is from; None: no row has the model.
    """

    model_name: str
    provider: str = "custom"
    is_function_calling_model: bool = True
    context_window: int | None = None
    capabilities: Capabilities = field(default=Capabilities(), compare=False)  # no part of the model's identity
    base_model: str | None = None
    family: str | None = field(default=None, compare=False)
