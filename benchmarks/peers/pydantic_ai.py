"""pydantic-ai: `agent.run_stream` with an output type, `stream_output` without debouncing."""

# /// script
# dependencies = ["pydantic-ai-slim[openai]"]
# ///

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from canned import Person
from documents import Document
from peers.calling import Caller, Ready, alast
from peers.common import Peer, Way, Wire, main, openai_client
from pydantic_ai import Agent
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

if __name__ == "__main__":
    main(Peer("pydantic-ai", ("pydantic-ai-slim", "openai"), READY, WAYS, CALLERS))
