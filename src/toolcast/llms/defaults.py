"""The default LLM, settings and handling of tool errors, for the process or for a context.

`Configs.llm = Ollama("llama3.2")` is for the process; `with Configs.use(llm=...):` for the block, in this thread or
task and the tasks that it starts, as with any context variable.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from ..async_support.context_blocks import ContextBlocks
from ..text.reprs import safe_repr
from ..tools.tool_options import ToolErrors, check_tool_errors

if TYPE_CHECKING:
    from ..values.settings import Settings
    from .function_calling_llm import FunctionCallingLLM

_here: ContextVar[dict[str, Any] | None] = ContextVar("toolcast_configs", default=None)


class _Configs:
    """The defaults, of which `Configs` is the only instance."""

    def __init__(self) -> None:
        self._llm: FunctionCallingLLM | str | None = None
        self._settings: Settings | None = None
        self._tool_errors: ToolErrors = "return"

    @safe_repr
    def __repr__(self) -> str:
        return f"Configs(llm={self._llm!r}, settings={self._settings!r}, tool_errors={self._tool_errors!r})"

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
        here = _here.get()  # as `_get` does, without its frame: every call reads it
        return self._settings if here is None else here.get("settings", self._settings)

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


_replacements: Final = ContextBlocks["FunctionCallingLLM"](
    "toolcast_replacement", "the block of use_llm", "blocks of use_llm"
)

replacement: Final = _replacements.current  # no function around it, as every request calls it
"""Return the LLM that replaces every other one (`toolcast.testing.use_llm`), or None."""


def replace_llm(llm: FunctionCallingLLM, *, process_wide: bool = False) -> AbstractContextManager[None]:
    """Send every call inside the block to `llm` instead of its own LLM.

    Args:
        llm: The LLM that replaces all others.
        process_wide: Replace in the whole process, except inside blocks of their own.
    """
    return _replacements.by_default(llm) if process_wide else _replacements.block(llm)
