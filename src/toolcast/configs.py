"""The default LLM and settings, for the process or for a context.

`Configs.llm = Ollama("llama3.2")` holds everywhere; `with Configs.use(llm=...):` only inside the block, in this
thread or task and the tasks that it starts, as context variables do.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .llms import FunctionCallingLLM
    from .settings import Settings

_here: ContextVar[dict[str, Any] | None] = ContextVar("toolcast_configs", default=None)
_replacement: ContextVar[FunctionCallingLLM | None] = ContextVar("toolcast_replacement", default=None)


class _Configs:
    """The defaults. There is one, `Configs`."""

    def __init__(self) -> None:
        self._llm: FunctionCallingLLM | str | None = None
        self._settings: Settings | None = None

    @property
    def llm(self) -> FunctionCallingLLM | str | None:
        """The LLM of orchestrators that are made without one: an LLM, its name, or None."""
        llm: FunctionCallingLLM | str | None = self._get("llm", self._llm)
        return llm

    @llm.setter
    def llm(self, llm: FunctionCallingLLM | str | None) -> None:
        self._llm = llm

    @property
    def settings(self) -> Settings | None:
        """The settings under those of every LLM and call."""
        settings: Settings | None = self._get("settings", self._settings)
        return settings

    @settings.setter
    def settings(self, settings: Settings | None) -> None:
        self._settings = settings

    @contextmanager
    def use(self, *, llm: FunctionCallingLLM | str | None = None, settings: Settings | None = None) -> Generator[None]:
        """Other defaults inside a `with` block; what is None stays as it was."""
        changes = {name: value for name, value in (("llm", llm), ("settings", settings)) if value is not None}
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
    """The LLM that stands in for every other one in this context (`toolcast.testing.use_llm`), or None."""
    return _replacement.get()


@contextmanager
def replace_llm(llm: FunctionCallingLLM) -> Generator[None]:
    """Every call inside the block goes to `llm`, whatever LLM it was made with."""
    token = _replacement.set(llm)
    try:
        yield
    finally:
        _replacement.reset(token)
