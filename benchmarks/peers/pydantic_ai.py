"""pydantic-ai: `agent.run_stream` with an output type, `stream_output` without debouncing; an agent with a tool."""

# /// script
# dependencies = ["pydantic-ai-slim[openai]"]
# ///

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from canned import Person
from documents import Document
from peers.calling import Caller, Ready, alast
from peers.common import Peer, Way, Wire, main, openai_client
from peers.rounds import ARGUMENTS, COUNT, DONE, Agent as Row, add
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


def output(document: Document, wire: Wire) -> Callable[[], AsyncIterator[Any]]:
    """A partly validated object for each chunk that can make one."""
    provider = OpenAIProvider(openai_client=openai_client(wire, "AsyncOpenAI"))
    agent = Agent(OpenAIChatModel("gpt-4o-mini", provider=provider), output_type=document.type)

    async def read() -> AsyncIterator[Any]:
        async with agent.run_stream("Make one.") as result:
            async for item in result.stream_output(debounce_by=None):
                yield item

    return read


def asynchronous(url: str) -> Ready:
    """One call and one short stream."""
    provider = OpenAIProvider(api_key="none", base_url=url)
    agent = Agent(OpenAIChatModel("gpt-4o-mini", provider=provider), output_type=Person)

    async def call() -> Person:
        return (await agent.run("Make one.")).output

    async def stream() -> Any:
        async with agent.run_stream("Make one.") as result:
            return await alast(result.stream_output(debounce_by=None))

    return Ready(call, stream)


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A call of the tool, and the end of the turn after `COUNT` of its results."""
    ended = len(messages) > 2 * COUNT
    return ModelResponse(parts=[TextPart(DONE) if ended else ToolCallPart("add", ARGUMENTS)])


def rounds() -> Callable[[], Awaitable[str]]:
    """One turn of an agent with a tool."""
    agent = Agent(FunctionModel(scripted), tools=[add])

    async def turn() -> str:
        return (await agent.run("Count.")).output

    return turn


READY = """
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
class Album(BaseModel): title: str
Agent(OpenAIChatModel('gpt-4o-mini', provider=OpenAIProvider(api_key='none')), output_type=Album).run_stream
"""
WAYS = (Way("pydantic-ai", "typed", output, tool="final_result"),)
CALLERS = (Caller("pydantic-ai, async", asynchronous, "final_result/v1"),)
AGENTS = (Row("pydantic-ai", rounds),)

if __name__ == "__main__":
    main(Peer("pydantic-ai", ("pydantic-ai-slim", "openai"), READY, WAYS, CALLERS, AGENTS))
