"""What a tool may know of the call it serves.

A function that has a parameter annotated `ToolContext` is given one there; the model sees nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from ..cancellation import Cancellation
from ..errors import TurnCancelled
from ..events import ToolProgress
from ..usage import BudgetTracker

D = TypeVar("D", default=Any)

Tell = Callable[[ToolProgress], object]


@dataclass(frozen=True, eq=False)  # not with slots: Python 3.11 could not make a `ToolContext[Deps](...)` then
class ToolContext(Generic[D]):
    """The call a tool serves: its `call_id`, the `tool`'s name, and the `deps` that the engine was given.

    `cancellation` tells when the turn is cancelled; `spending` is what the turn's budgets count, for tools that
    spend tokens themselves.
    """

    call_id: str = ""
    tool: str = ""
    deps: D = field(default=cast("Any", None), repr=False)  # outside an engine there are none
    cancellation: Cancellation = field(default_factory=Cancellation, repr=False)
    spending: BudgetTracker | None = field(default=None, repr=False)
    tell: Tell | None = field(default=None, repr=False)

    @property
    def cancelled(self) -> bool:
        """Whether the turn was cancelled, or this call's time is up: what the tool returns is of no use any more."""
        return self.cancellation.cancelled

    def check(self) -> None:
        """Raise `TurnCancelled` where the call was cancelled: for tools that work in steps."""
        if self.cancelled:
            raise TurnCancelled(f"the call of {self.tool} was cancelled")

    def emit(self, data: Any) -> None:
        """Have those who follow the turn see `data` at once, as a `ToolProgress` event."""
        if self.tell is not None:
            self.tell(ToolProgress(self.call_id, self.tool, data))
