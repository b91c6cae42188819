"""What an editor shows for agents. Checked by mypy and pyright; never run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, assert_type

from pydantic import BaseModel

from toolcast import (
    Agent,
    ApprovalDecision,
    CallableTool,
    Engine,
    FunctionCallingLLM,
    Message,
    PermissionRequest,
    Permissions,
    Session,
    ToolContext,
    ToolOrchestratingLLM,
    Turn,
    Usage,
    WebSearch,
    tool,
)
from toolcast.agents import AsyncTurnStream, TurnStream
from toolcast.events import AgentEvent, OutputDelta, ToolResult
from toolcast.stores import Store


class Album(BaseModel):
    title: str


def turns(engine: Engine) -> None:
    assert_type(engine.submit("hello"), Turn[None])
    assert_type(engine.submit("hello", output_cls=Album), Turn[Album])
    assert_type(engine.submit("hello", output_cls=Album).output, Album)
    assert_type(engine.submit("hello").output, None)
    assert_type(engine.submit("hello", output_cls=list[Album] | None), Turn[list[Album] | None])
    assert_type(engine.submit("hello", output_cls=Literal["yes", "no"]), Turn[Literal["yes", "no"]])
    assert_type(engine.stream("hello"), TurnStream[None])
    assert_type(engine.stream("hello", output_cls=Album), TurnStream[Album])
    assert_type(engine.stream("hello", output_cls=Album).result(), Turn[Album])
    assert_type(engine.history, tuple[Message, ...])
    assert_type(engine.usage, Usage)
    assert_type(engine.pending, tuple[PermissionRequest, ...])
    for event in engine.stream("hello"):
        assert_type(event, AgentEvent[None])


def typed_events(engine: Engine) -> None:
    for event in engine.stream("hello", output_cls=Album):
        assert_type(event, AgentEvent[Album])
        match event:
            case OutputDelta(value):
                assert_type(value, Album)
            case ToolResult(output=output):
                assert_type(output, object)
            case _:
                pass


async def turns_awaited(engine: Engine) -> None:
    assert_type(await engine.asubmit("hello"), Turn[None])
    assert_type(await engine.asubmit("hello", output_cls=Album), Turn[Album])
    assert_type(engine.astream("hello", output_cls=Album), AsyncTurnStream[Album])
    async for event in engine.astream("hello", output_cls=Album):
        assert_type(event, AgentEvent[Album])


def approvals(request: PermissionRequest) -> ApprovalDecision:
    assert_type(request.allow(), ApprovalDecision)
    return request.edit({"path": "notes.txt"})


async def approve(request: PermissionRequest) -> bool:
    return request.tool == "read"


Permissions("plan", approve=approvals)
Permissions(approve=approve)
Permissions(approve="later")


async def approve_all(requests: Sequence[PermissionRequest]) -> list[ApprovalDecision]:
    return [request.allow() for request in requests]


Permissions(approve_all=approve_all)
Permissions(approve_all=lambda requests: len(requests) < 3)


class Shop:
    name = "shop"


def price(item: str, context: ToolContext[Shop]) -> str:
    assert_type(context.deps, Shop)
    return context.deps.name


async def instruct(context: ToolContext[Shop]) -> str | None:
    return context.deps.name


def check(context: ToolContext[Shop], output: Album) -> Album:
    return output


async def positive(context: ToolContext[Shop], output: int) -> int:
    return abs(output)


@tool
def plain(item: str) -> int:
    return 3


@tool(read_only=True, approval="always")
def declared(item: str, context: ToolContext[Shop]) -> str:
    return item


@tool
def in_first_place(context: ToolContext[Shop], item: str) -> str:
    return context.deps.name


@tool(read_only=True)
async def of_others(context: ToolContext[str], item: str) -> str:
    return context.deps


class Shelf:
    @tool
    def put(self, context: ToolContext[Shop], item: str) -> int:
        return 3

    @tool(timeout=3)
    def take(self, context: ToolContext[str], item: str) -> int:
        return 3

    def look(self, item: str) -> int:
        return 3


async def of_no_dependencies(context: ToolContext, item: str) -> str:
    return item


assert_type(plain("x"), int)
assert_type(plain(item="x"), int)
assert_type(in_first_place(ToolContext(deps=Shop()), item="x"), str)
assert_type(Shelf().put(ToolContext(deps=Shop()), "x"), int)
plain(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - of a wrong type
assert_type(declared("x", ToolContext(deps=Shop())), str)
tool(approval="often")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType] - of a wrong type


def dependencies(llm: FunctionCallingLLM) -> None:
    assert_type(Engine(llm, [price]), Engine[Any])
    assert_type(Engine(llm, [price], deps=Shop()), Engine[Shop])
    assert_type(Engine(llm, [price], instructions=instruct, output_validators=[check]), Engine[Shop])
    engine = Engine[Shop](llm, [price], instructions=lambda context: context.deps.name, output_validators=check)
    assert_type(engine.submit("hello", deps=Shop(), output_cls=Album).output, Album)
    assert_type(engine.fork(instructions=instruct), Engine[Shop])
    session = Session(engine)
    assert_type(session, Session[Shop])
    assert_type(session.run("hello", deps=Shop(), output_cls=Album, validation_context={}).output, Album)
    engine.submit("hello", deps="shop")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType] - of a wrong type
    session.send("hello", deps="shop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - of a wrong type
    Engine[str](llm, instructions=instruct)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - of a wrong type


def agents(llm: FunctionCallingLLM, store: Store) -> None:
    assert_type(Agent(llm).run("hello"), Turn[None])
    assert_type(Agent(llm, output_cls=list[Album]).run("hello"), Turn[list[Album]])
    agent = Agent[Shop, Album](llm, [price], output_cls=Album, instructions=instruct, output_validators=check)
    turn = agent.run("hello", deps=Shop())
    assert_type(turn, Turn[Album])
    assert_type(agent.run("and?", history=turn.history, deps=Shop()).output, Album)
    assert_type(agent.stream("hello", deps=Shop()), TurnStream[Album])
    assert_type(agent.engine(), Engine[Shop, Album])
    assert_type(agent.engine().submit("hello", deps=Shop()), Turn[Album])
    assert_type(agent.engine().submit("hello", output_cls=int, deps=Shop()), Turn[int])
    assert_type(agent.session(store), Session[Shop, Album])
    assert_type(Session.resume("ingrid", agent, store).run("hello"), Turn[Album])
    assert_type(agent.with_(max_rounds=3), Agent[Shop, Album])
    assert_type(agent.with_(output_cls=int, output_validators=[]), Agent[Shop, int])
    assert_type(turn.typed_output, Album | None)
    agent.with_(max_rounds="3")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType] - of a wrong type
    agent.with_(output_validators=positive)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - of an int
    Agent[Shop, Album](llm, output_cls=Album, output_validators=positive)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - of an int
    Agent(llm, output_cls=int, output_validators=[positive]).run("hello", deps=Shop())
    agent.run("hello", deps="shop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - of a wrong type
    Agent[Shop, str](llm, output_cls=Album)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - likewise


def dependencies_of_agents(llm: FunctionCallingLLM) -> None:
    shelf = Shelf()
    agent = Agent[Shop](llm, [in_first_place, declared, plain, price, of_no_dependencies, shelf.put, shelf.look])
    Agent[Shop](llm, [Album, list[int], partial(price, "x"), CallableTool.from_function(price)])
    Agent[Shop](llm, [agent, agent.as_tool("x"), Engine(llm), ToolOrchestratingLLM(Album, "x", llm), WebSearch()])
    assert_type(Agent(llm, [in_first_place]), Agent[Shop])
    Agent(llm, [plain, price]).run("hello", deps=None)
    Agent[Shop](llm, [of_others])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType] - of others
    Agent[Shop](llm, [shelf.take])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType] - of others
    Agent(llm, [in_first_place, of_others])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType] - of two
    Agent[str](llm, instructions=instruct)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - of others
    Agent[str](llm, output_validators=[check])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType] - of others
    agent.run("hello")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - without any
    agent.stream("hello")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - without any
    agent.run("hello", deps="shop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - of a wrong type
    agent.engine(deps="shop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - of a wrong type
    Agent[Shop](llm, deps=Shop())  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - of a run


async def agents_awaited(agent: Agent[Shop, Album]) -> None:
    assert_type(await agent.arun("hello", deps=Shop()), Turn[Album])
    await agent.arun("hello")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - without any
    assert_type(agent.astream("hello", deps=Shop()), AsyncTurnStream[Album])


def sessions(engine: Engine) -> None:
    session = Session(engine)
    assert_type(session.result(), Turn[Any])
    assert_type(session.run("hello"), Turn[None])
    assert_type(session.run("hello", output_cls=Album), Turn[Album])
    for event in session.events():
        assert_type(event, AgentEvent)
