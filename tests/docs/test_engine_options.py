"""docs/reference/engine.md has every argument of an agent and of its turns, in the tables and in the snippet."""

from __future__ import annotations

import inspect
import re

import pytest

from docs.pages import PAGES, blocks
from toolcast import Agent, Engine, Session
from toolcast.agents.engine.engine_config import AgentOptions, EngineOptions
from toolcast.agents.engine.turn_request import RunOptions, TurnOptions

(PAGE,) = [page for page in PAGES if page.as_posix().endswith("docs/reference/engine.md")]
OPTIONS = ["llm", "tools", "output_cls", *AgentOptions.__annotations__]


def rows(heading: str) -> list[str]:
    """Return the first cell of each row of the table after `heading`."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"{heading}\n")
    return re.findall(r"^\| `(\w+)` \|", rest.partition("\n## ")[0], re.MULTILINE)


def parameters(function: object) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "options")]  # type: ignore[arg-type]  # a method


def test_the_options_are_those_of_the_constructor() -> None:
    assert rows("# Options of an agent") == OPTIONS
    assert parameters(Agent.__init__) == ["llm", "tools", "output_cls"]  # the others are AgentOptions
    assert parameters(Engine.__init__) == ["llm", "tools"]
    assert EngineOptions.__annotations__.keys() - AgentOptions.__annotations__ == {"history", "deps"}


def test_the_snippet_uses_every_option() -> None:
    (snippet,) = [block.code for block in blocks(PAGE) if block.language == "python"]
    assert [name for name in OPTIONS if not re.search(rf"^    {name}=", snippet, re.MULTILINE)] == []


OF_AGENTS = [Agent.run, Agent.arun, Agent.stream, Agent.astream]
OF_ENGINES = [Engine.submit, Engine.asubmit, Engine.stream, Engine.astream]
OF_SESSIONS = [Session.run, Session.arun, Session.send, Session.asend]


@pytest.mark.parametrize("method", [*OF_AGENTS, *OF_ENGINES, *OF_SESSIONS])
def test_the_arguments_of_a_turn_are_those_of_the_methods(method: object) -> None:
    other, options = ("output_cls", RunOptions) if method in OF_AGENTS else ("history", TurnOptions)
    documented = sorted([name for name in rows("## Arguments of a turn") if name != other])
    assert documented == sorted([*parameters(method), *options.__annotations__])
