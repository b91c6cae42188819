"""What an editor shows for agents. Checked by mypy and pyright; never run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, assert_type

from pydantic import BaseModel

from toolcast import (
    Agent,
    AgentEvent,
    ApprovalDecision,
    AsyncTurnStream,
    Engine,
    FunctionCallingLLM,
    Message,
    OutputDelta,
    PermissionRequest,
    Permissions,
    Session,
    Store,
    ToolContext,
    ToolResult,
    Turn,
    TurnStream,
    Usage,
    tool,
)


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


@tool
def plain(item: str) -> int:
    return 3


@tool(read_only=True, approval="always")
def declared(item: str, context: ToolContext[Shop]) -> str:
    return item


assert_type(plain("x"), int)
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
    agent.run("hello", deps="shop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - of a wrong type
    Agent[Shop, str](llm, output_cls=Album)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - likewise


async def agents_awaited(agent: Agent[Shop, Album]) -> None:
    assert_type(await agent.arun("hello", deps=Shop()), Turn[Album])
    assert_type(agent.astream("hello", deps=Shop()), AsyncTurnStream[Album])


def sessions(engine: Engine) -> None:
    session = Session(engine)
    assert_type(session.result(), Turn[Any])
    assert_type(session.run("hello"), Turn[None])
    assert_type(session.run("hello", output_cls=Album), Turn[Album])
    for event in session.events():
        assert_type(event, AgentEvent)
