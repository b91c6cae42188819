"""openai-agents: `Runner.run` with a model that answers from memory, its tracing off."""

# /// script
# dependencies = ["openai-agents"]
# ///

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from peers.common import Peer, main
from peers.rounds import ARGUMENTS, COUNT, DONE, Agent, add

import agents


class Scripted(Model):
    """A model that calls the tool, and ends the turn after `COUNT` of its results."""

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any) -> agents.ModelResponse:
        history = [] if isinstance(input, str) else input
        number = sum(item.get("type") == "function_call_output" for item in history)
        output: Any = ResponseFunctionToolCall(
            type="function_call", name="add", arguments=ARGUMENTS, call_id=f"call_{number}"
        )
        if number == COUNT:
            text = ResponseOutputText(type="output_text", text=DONE, annotations=[])
            output = ResponseOutputMessage(
                id="message", type="message", role="assistant", status="completed", content=[text]
            )
        return agents.ModelResponse(output=[output], usage=agents.Usage(), response_id=None)

    def stream_response(self, *rest: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("only whole answers are measured")


def agent() -> Callable[[], Awaitable[str]]:
    """One turn."""
    agents.set_tracing_disabled(disabled=True)
    made: Any = agents.Agent("adder", model=Scripted(), tools=[agents.function_tool(add)])

    async def turn() -> str:
        return str((await agents.Runner.run(made, "Count.", max_turns=COUNT + 1)).final_output)

    return turn


READY = "import agents; agents.Agent('adder').name; agents.Runner.run"

if __name__ == "__main__":
    main(Peer("openai-agents", ("openai-agents", "openai"), READY, agents=(Agent("openai-agents", agent),)))
