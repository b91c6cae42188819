"""`PortableCall`: a structured call that is sent to other processes without its credentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar, cast

from ..llms.base import FunctionCallingLLM
from ..llms.client import client_of
from ..option_types import require_callable
from ..structured.orchestrator import ToolOrchestratingLLM
from .errors import JobError

T = TypeVar("T")

CallOrFactory: TypeAlias = ToolOrchestratingLLM[T] | Callable[[], ToolOrchestratingLLM[T]]
"""A call, or a function without arguments that makes it in the process that uses it."""


class PortableCall(Generic[T]):
    """A call, or a function that makes it, which can be pickled.

    A pickle contains no credentials: the other process reads them from its environment, as the LLM does, or in the
    function. A call to which credentials were passed by hand cannot be pickled, as it would fail there.

    Args:
        call: The call, or the function.
    """

    def __init__(self, call: CallOrFactory[T]) -> None:
        require_callable("call", call, "a ToolOrchestratingLLM, or a function that returns one")
        self._source: object = call.with_found_llm() if isinstance(call, ToolOrchestratingLLM) else call
        self._call: ToolOrchestratingLLM[T] | None = None

    @property
    def call(self) -> ToolOrchestratingLLM[T]:
        """The call, made on first use. Raise `TypeError` if the function returns something else."""
        if self._call is None:
            made = self._source
            if not isinstance(made, ToolOrchestratingLLM):
                made = cast("Callable[[], object]", made)()
            if not isinstance(made, ToolOrchestratingLLM):
                raise TypeError(f"call: expected a function that returns a ToolOrchestratingLLM, got {made!r:.80}")
            self._call = cast("ToolOrchestratingLLM[T]", made)
        return self._call

    def require_portable(self) -> None:
        """Raise `JobError` if credentials were passed by hand to the LLM of the call."""
        llm: FunctionCallingLLM | None = getattr(self._source, "llm", None)  # a function has none
        if llm is not None and (passed := client_of(llm).passed_credentials):
            raise JobError(
                f"{llm!r} was created with credentials, which are not sent to other processes: {', '.join(passed)}. "
                "Leave them out and set the variables of the provider in the environment of the workers, or pass a "
                "function that returns the call: it runs in each worker, and can read a key there."
            )

    def __getstate__(self) -> dict[str, Any]:
        self.require_portable()
        return {"_source": self._source, "_call": None}
