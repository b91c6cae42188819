"""engine_config.py: the dependencies of a turn, and tools that require some."""

from __future__ import annotations

from typing import Annotated, Any, Protocol, TypedDict, TypeVar
from unittest.mock import Mock

import anyio
import pytest
from typing_extensions import TypeAliasType

from support.engines import EngineAPI, call, check, results
from toolcast.agents.engine.engine import Engine
from toolcast.agents.permissions.permissions import Permissions
from toolcast.agents.sessions.session import Session
from toolcast.agents.subagents.elves import ElfConfig, ElfManager
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import CallableTool
from toolcast.tools.tool_context import ToolContext

T = TypeVar("T")


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name


def name(context: ToolContext[Shop]) -> str:
    """Return the name of the shop."""
    return context.deps.name


def named(*answers: Any, **options: Any) -> tuple[ScriptedLLM, Engine[Shop]]:
    llm = ScriptedLLM(*(answers or [call("a", "name"), "ok", call("b", "name"), "ok"]))
    return llm, Engine[Shop](llm, [name], **options)


def contents(engine: Engine[Any]) -> list[str]:
    return [part.content for part in results(engine.history)]


def test_the_dependencies_of_a_turn_take_precedence(engine_api: EngineAPI) -> None:
    _, engine = named(deps=Shop("own"))
    engine_api.submit(engine, "Name?", deps=Shop("turn"))
    engine_api.stream(engine, "Name?")
    assert contents(engine) == ["turn", "own"]
    check(engine)


def test_a_tool_that_requires_dependencies_and_has_none_is_an_error_before_anything_is_sent(
    engine_api: EngineAPI,
) -> None:
    llm, engine = named()
    expected = (
        r"^the tool name requires deps \(its context is a ToolContext\[Shop\]\), and the turn has none: "
        r"pass deps= to run\(\) or submit\(\), or to the Engine$"
    )
    for way in (engine_api.submit, engine_api.stream):
        with pytest.raises(TypeError, match=expected):
            way(engine, "Name?")
    with pytest.raises(TypeError, match=expected):
        engine_api.submit(Engine(llm), "Name?", output_cls=name)
    with Session(engine) as session, pytest.raises(TypeError, match=expected):
        session.send("Name?")
    outer = Engine(llm, [engine.as_tool("shop")])
    with pytest.raises(TypeError, match=r"^the tool shop requires deps"):
        engine_api.submit(outer, "Name?")
    assert (llm.requests, engine.history, engine.state) == ([], (), "idle")


def bare(context: ToolContext) -> None: ...
def of_any(context: ToolContext[Any]) -> None: ...
def of_none(context: ToolContext[None]) -> None: ...
def of_optional(context: ToolContext[Shop | None]) -> None: ...
def of_annotated_optional(context: ToolContext[Annotated[Shop | None, "x"]]) -> None: ...
def of_object(context: ToolContext[object]) -> None: ...
def of_variable(context: ToolContext[T]) -> None: ...
def without(x: int) -> None: ...


def optional_context(context: ToolContext[Shop] | None = None) -> None: ...
def annotated(context: Annotated[ToolContext[Shop], "x"]) -> None: ...


ShopContext = TypeAliasType("ShopContext", ToolContext[Shop])


def aliased(context: ShopContext) -> None: ...
def of_list(context: ToolContext[list[int]]) -> None: ...


@pytest.mark.parametrize(
    "function", [bare, of_any, of_none, of_optional, of_annotated_optional, of_object, of_variable, without]
)
def test_other_tools_require_none(function: Any) -> None:
    assert CallableTool.from_function(function).deps_type is None


@pytest.mark.parametrize(
    ("function", "kind"),
    [(name, Shop), (optional_context, Shop), (annotated, Shop), (aliased, Shop), (of_list, list[int])],
)
def test_the_type_of_required_dependencies_is_read_from_the_annotation(function: Any, kind: Any) -> None:
    assert CallableTool.from_function(function).deps_type == kind
    with pytest.raises(TypeError, match="requires deps"):
        Engine(ScriptedLLM(), [function]).submit("Hello.")


class HasName(Protocol):
    name: str


class Names(TypedDict):
    name: str


def of_protocol(context: ToolContext[HasName]) -> None: ...
def of_dict(context: ToolContext[Names]) -> None: ...
def of_number(context: ToolContext[float]) -> None: ...


@pytest.mark.parametrize(
    ("function", "deps", "fits"),
    [
        (name, "shop", False),
        (name, Mock(spec=Shop), True),
        (of_number, 5, True),
        (of_number, "5", False),
        (of_list, (), True),  # what cannot be found out at run time is left to type checkers
        (of_protocol, Shop("x"), True),
        (of_dict, {"name": "x"}, True),
    ],
)
def test_dependencies_of_another_type_are_an_error_before_anything_is_sent(
    engine_api: EngineAPI, function: Any, deps: Any, fits: bool
) -> None:
    llm = ScriptedLLM("Hi.")
    engine = Engine(llm, [function])
    if fits:
        assert engine_api.submit(engine, "Hello.", deps=deps).text == "Hi."
        return
    expected = r"requires deps \(its context is a ToolContext\[\w+\]\), and the turn has a str: pass a \w+, or annotate"
    with pytest.raises(TypeError, match=expected):
        engine_api.submit(engine, "Hello.", deps=deps)
    assert not llm.requests


def test_a_session_passes_dependencies_on(engine_api: EngineAPI) -> None:
    _, engine = named(*[call("a", "name"), "ok"] * 4)
    with Session(engine) as session:
        session.run("Name?", deps=Shop("run"))
        session.send("Name?", deps=Shop("send"))
        session.result()

    async def main() -> None:
        async with Session(engine) as session:
            await session.arun("Name?", deps=Shop("arun"))
            await session.asend("Name?", deps=Shop("asend"))
            await session.aresult()

    anyio.run(main)
    assert contents(engine) == ["run", "send", "arun", "asend"]


def test_a_turn_that_is_continued_gets_its_own_dependencies(engine_api: EngineAPI) -> None:
    _, engine = named(call("a", "name"), "ok", permissions=Permissions(approve="later"))
    turn = engine_api.submit(engine, "Name?", deps=Shop("first"))
    answers = [request.allow() for request in turn.pending]
    with pytest.raises(TypeError, match="requires deps"):
        engine_api.submit(engine, answers=answers)
    engine_api.submit(engine, answers=answers, deps=Shop("second"))
    assert contents(engine) == ["second"]


def test_an_engine_as_a_tool_gets_the_dependencies_of_the_turn_unless_it_has_its_own(engine_api: EngineAPI) -> None:
    seen: list[str] = []

    def look(context: ToolContext[Shop]) -> str:
        """Look."""
        seen.append(context.deps.name)
        return "ok"

    for own in (None, Shop("own")):
        inner = Engine[Shop](ScriptedLLM(call("a", "look"), "ok"), [look], deps=own)
        outer = Engine[Shop](ScriptedLLM(call("b", "inner", '{"prompt": "Look."}'), "ok"), [inner.as_tool("inner")])
        engine_api.submit(outer, "Go.", deps=Shop("turn"))
    assert seen == ["turn", "own"]


@pytest.mark.parametrize("background", [False, True])
def test_an_elf_gets_the_dependencies_of_the_turn_that_starts_it(background: bool) -> None:
    _, engine = named(*[call("a", "name"), "ok"] * 3, deps=Shop("own"))
    elves = ElfManager(engine)
    context = ToolContext(deps=Shop("turn"))
    found: list[list[str]] = []
    for each, deps in ((context, None), (None, None), (context, Shop("given"))):
        elf = elves.spawn(ElfConfig("Name?", background=background, deps=deps), context=each)
        elf.wait(60)
        found.append(contents(elf.engine))
    assert found == [["turn"], ["own"], ["given"]]
