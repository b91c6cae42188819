"""`ToolContext`: the context of a tool call, for functions with a parameter annotated with it.

The parameter is filled in when the function is called; the model does not see it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from ..async_support.cancellation import Cancellation
from ..errors import TurnCancelled
from ..events import ToolProgress
from ..lazy.lazy_dataclasses import dataclass
from ..values.budgets import BudgetTracker

D = TypeVar("D", default=Any)

ProgressCallback = Callable[[ToolProgress], object]


@dataclass(frozen=True, eq=False)  # no slots: Python 3.11 cannot create a generic `ToolContext[Deps](...)` with them
class ToolContext(Generic[D]):
    """The tool call that a function serves.

    Attributes:
        call_id: The id of the call.
        tool: The name of the tool.
        deps: The dependencies that were passed to the engine.
        cancellation: Set when the turn is cancelled or the call's time is up.
        spending: The tokens and costs counted against the turn's budgets, for tools that use tokens themselves.
        on_progress: The function that receives progress events, if there is one.
    """

    call_id: str = ""
    tool: str = ""
    deps: D = field(default=cast("Any", None), repr=False)  # None outside of an engine
    cancellation: Cancellation = field(default_factory=Cancellation, repr=False)
    spending: BudgetTracker | None = field(default=None, repr=False)
    on_progress: ProgressCallback | None = field(default=None, repr=False)

    @property
    def cancelled(self) -> bool:
        """True if the turn was cancelled or the call's time is up: the return value will be discarded."""
        return self.cancellation.cancelled

    def check(self) -> None:
        """Raise `TurnCancelled` if the call was cancelled, for tools that work in steps."""
        if self.cancelled:
            raise TurnCancelled(f"the call of {self.tool} was cancelled")

    def emit(self, data: Any) -> None:
        """Send `data` to the stream of the turn at once, as a `ToolProgress` event."""
        if self.on_progress is not None:
            self.on_progress(ToolProgress(self.call_id, self.tool, data))
