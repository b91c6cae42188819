"""langgraph: the agent that `create_agent` builds on it, with a chat model that answers from memory."""

# /// script
# dependencies = ["langgraph", "langchain"]
# ///

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from peers.common import Peer, main
from peers.rounds import ARGUMENTS, COUNT, DONE, Agent, add


class Scripted(BaseChatModel):
    """A chat model that calls the tool, and ends the turn after `COUNT` of its results."""

    def bind_tools(self, tools: Any, **options: Any) -> Scripted:
        return self

    def _generate(self, messages: list[BaseMessage], *rest: Any, **options: Any) -> ChatResult:
        number = sum(message.type == "tool" for message in messages)
        call = {"name": "add", "args": json.loads(ARGUMENTS), "id": f"call_{number}"}
        message = AIMessage(content=DONE) if number == COUNT else AIMessage(content="", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[BaseMessage], *rest: Any, **options: Any) -> ChatResult:
        return self._generate(messages)

    @property
    def _llm_type(self) -> str:
        return "scripted"


def agent() -> Callable[[], Awaitable[str]]:
    """One turn."""
    graph = create_agent(Scripted(), [tool(add)])

    async def turn() -> str:
        settings: Any = {"recursion_limit": 10 * COUNT}
        result = await graph.ainvoke({"messages": [HumanMessage("Count.")]}, settings)
        return str(result["messages"][-1].content)

    return turn


PACKAGES = ("langgraph", "langchain", "langchain-core")
READY = "from langchain.agents import create_agent"

if __name__ == "__main__":
    main(Peer("langgraph", PACKAGES, READY, agents=(Agent("langgraph", agent),)))
