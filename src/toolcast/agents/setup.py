"""What all turns of one engine have in common, and what one turn is to do: frozen values instead of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..approvals import Answer
from ..llms import FunctionCallingLLM
from ..messages import Message
from ..settings import Settings
from ..tools import CallableTool
from ..usage import Spending
from .compaction import Compaction
from .permissions import Permissions
from .typed_output import TypedOutput


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """How turns are made: with which LLM and tools, within which limits."""

    llm: FunctionCallingLLM
    tools: tuple[CallableTool, ...]
    permissions: Permissions
    max_rounds: int
    settings: Settings | None
    instructions: tuple[Message, ...]
    deps: Any
    compaction: Compaction | None
    tool_timeout: float | None
    output_limit: int
    max_repeats: int | None
    max_attempts: int
    auto_continue: bool
    by_name: Mapping[str, CallableTool] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {tool.name: tool for tool in self.tools})


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What one turn is to do: what was said (nothing: go on), the typed result wanted, answers that are due.

    `checkpoint` is called whenever the transcript has changed, and always before a tool runs; what it raises ends
    the turn.
    """

    said: tuple[Message, ...] = ()
    typed: TypedOutput | None = None
    answers: tuple[Answer, ...] = ()
    spending: Spending | None = None
    checkpoint: Callable[[], object] | None = None
