"""What tests of programs that use toolcast stand on: no network, no key, no chance.

`ScriptedLLM` answers what it was told to and remembers what it was asked. `ReplayNetwork` stands in for the
network and sends recorded bytes, cut as you like. `use_llm` puts one LLM in the place of every other.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..configs import replace_llm
from ..llms import FunctionCallingLLM
from .replay import Recorded, ReplayNetwork, VirtualClock
from .scripted import Asked, ScriptedLLM

__all__ = [
    "Asked",
    "Recorded",
    "ReplayNetwork",
    "ScriptedLLM",
    "VirtualClock",
    "use_llm",
]


def use_llm(llm: FunctionCallingLLM) -> AbstractContextManager[None]:
    """A block inside which every call goes to `llm`, whatever LLM it was made with."""
    return replace_llm(llm)
