"""The default LLM, settings and handling of tool errors, for the process or for a context.

`Configs.llm = Ollama("llama3.2")` is for the process; `with Configs.use(llm=...):` for the block, in this thread or
task and the tasks that it starts, as with any context variable.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ..tools.options import ToolErrors, check_tool_errors

if TYPE_CHECKING:
    from ..settings import Settings
    from .base import FunctionCallingLLM

_here: ContextVar[dict[str, Any] | None] = ContextVar("toolcast_configs", default=None)
_replacement: ContextVar[FunctionCallingLLM | None] = ContextVar("toolcast_replacement", default=None)
_process_wide: list[FunctionCallingLLM] = []  # the last one replaces every LLM in all threads


class _Configs:
    """The defaults, of which `Configs` is the only instance."""

    def __init__(self) -> None:
        self._llm: FunctionCallingLLM | str | None = None
        self._settings: Settings | None = None
        self._tool_errors: ToolErrors = "return"

    @property
    def llm(self) -> FunctionCallingLLM | str | None:
        """The LLM of orchestrators that are created without one: an LLM, its name, or None."""
        llm: FunctionCallingLLM | str | None = self._get("llm", self._llm)
        return llm

    @llm.setter
    def llm(self, llm: FunctionCallingLLM | str | None) -> None:
        self._llm = llm

    @property
    def settings(self) -> Settings | None:
        """The settings that apply where an LLM and a call set none."""
        settings: Settings | None = self._get("settings", self._settings)
        return settings

    @settings.setter
    def settings(self, settings: Settings | None) -> None:
        self._settings = settings

    @property
    def tool_errors(self) -> ToolErrors:
        """The handling of errors that tools raise, for engines without the option `tool_errors`. Default: "return"."""
        tool_errors: ToolErrors = self._get("tool_errors", self._tool_errors)
        return tool_errors

    @tool_errors.setter
    def tool_errors(self, tool_errors: ToolErrors) -> None:
        check_tool_errors(tool_errors)
        self._tool_errors = tool_errors

    @contextmanager
    def use(
        self,
        *,
        llm: FunctionCallingLLM | str | None = None,
        settings: Settings | None = None,
        tool_errors: ToolErrors | None = None,
    ) -> Generator[None]:
        """Change the defaults inside a `with` block. None changes nothing."""
        check_tool_errors(tool_errors)
        given = (("llm", llm), ("settings", settings), ("tool_errors", tool_errors))
        changes = {name: value for name, value in given if value is not None}
        token = _here.set({**(_here.get() or {}), **changes})
        try:
            yield
        finally:
            _here.reset(token)

    def _get(self, name: str, otherwise: Any) -> Any:
        here = _here.get()
        return here[name] if here is not None and name in here else otherwise


Configs: _Configs = _Configs()


def replacement() -> FunctionCallingLLM | None:
    """Return the LLM that replaces every other one (`toolcast.testing.use_llm`), or None."""
    here = _replacement.get()
    last = _process_wide[-1:]  # at once: another thread may leave its block meanwhile
    return last[0] if here is None and last else here


@contextmanager
def replace_llm(llm: FunctionCallingLLM, *, process_wide: bool = False) -> Generator[None]:
    """Send every call inside the block to `llm` instead of its own LLM.

    Args:
        llm: The LLM that replaces all others.
        process_wide: Replace in all threads, except inside blocks of their own.
    """
    if process_wide:
        _process_wide.append(llm)
        try:
            yield
        finally:
            del _process_wide[max(index for index, each in enumerate(_process_wide) if each is llm)]
        return
    token = _replacement.set(llm)
    try:
        yield
    finally:
        _replacement.reset(token)
