"""`from toolcast import *` gives type checkers the names. Checked by mypy and pyright; never run."""

# ruff: noqa: F403, F405 - a star import is what this file is about

from typing import assert_type

from pydantic import BaseModel

from toolcast import *


class Album(BaseModel):
    title: str


make = ToolOrchestratingLLM(Album, "An album about {topic}", Ollama("llama3.2"))

assert_type(make(topic="a"), Album)
assert_type(user("a"), Message)
assert_type(Engine(Ollama("llama3.2"), []).submit("a"), Turn[None])


def misspelt() -> None:
    """Names that are not there, which no `__getattr__` hides."""
    from toolcast import OpenAi  # type: ignore[attr-defined]  # noqa: F401  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnusedImport] - not there
    from toolcast.agents import ElfManger  # type: ignore[attr-defined]  # noqa: F401  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnusedImport] - not there
