"""What tests of programs that use toolcast stand on: no network, no key, no chance.

`ScriptedLLM` answers what it was told to and remembers what it was asked. `ReplayNetwork` stands in for the
network and sends recorded bytes, cut as you like. `use_llm` puts one LLM in the place of every other.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..llms.base import FunctionCallingLLM
from ..llms.defaults import replace_llm
from .replay import Recorded, ReplayNetwork, VirtualClock
from .scripted import ScriptedLLM, ScriptedRequest

__all__ = [
    "Recorded",
    "ReplayNetwork",
    "ScriptedLLM",
    "ScriptedRequest",
    "VirtualClock",
    "use_llm",
]


def use_llm(llm: FunctionCallingLLM, *, process_wide: bool = False) -> AbstractContextManager[None]:
    """Return a block inside which every call goes to `llm`, whatever LLM it was made with.

    It holds for the thread or task that entered it and for the tasks it starts, as context variables do; threads of a
    pool see it with `process_wide=True`, or where they run in a copy of the context
    (`pool.submit(contextvars.copy_context().run, function)`).
    """
    return replace_llm(llm, process_wide=process_wide)
