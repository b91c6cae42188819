"""An agent on a model that runs inside this process: no key, no server.

It is asked a sum, calls a calculator, gets the result, and answers; then it is asked for a typed result.
Run it with `pip install 'toolcast[local]'` and `python examples/agent.py`.
"""

from __future__ import annotations

import asyncio
import json

from pydantic import BaseModel

from toolcast import Agent, LlamaCpp, Message, Settings, ToolCallPart, assistant, tool_result, user
from toolcast.events import AgentEvent, TextDelta, ToolCallDone, ToolResult


class Product(BaseModel):
    """The product of two numbers."""

    a: int
    b: int
    product: int


def multiply(a: int, b: int) -> str:
    """Multiply two numbers."""
    return f"{a} times {b} is {a * b}."


# The model is small. It calls a tool where it has seen that done, so its history begins with two worked turns; and a
# tool that answers with a sentence spares it from making one. A large model needs none of this.
def worked(id: str, question: str, a: int, b: int, *, typed: bool = False) -> list[Message]:
    """One turn as it should go."""
    call = ToolCallPart(id, "multiply", json.dumps({"a": a, "b": b}))
    turn = [user(question), assistant(call), tool_result(call, multiply(a, b))]
    if not typed:
        return [*turn, assistant(multiply(a, b))]
    last = ToolCallPart(f"{id}_typed", "Product", Product(a=a, b=b, product=a * b).model_dump_json())
    return [*turn, assistant(last), tool_result(last, "Done.")]


def two_worked_turns(*, typed: bool = False) -> list[Message]:
    """What the agent has seen before it is asked anything."""
    return [
        *worked("one", "What is 4 times 6?", 4, 6, typed=typed),
        *worked("two", "Multiply 31 by 9.", 31, 9, typed=typed),
    ]


def show(event: AgentEvent) -> None:
    """What of a turn is worth a line, or a word."""
    match event:
        case ToolCallDone(name=name, arguments=arguments):
            print(f"  calls    {name} {arguments}")
        case ToolResult(name=name, content=content):
            print(f"  gets     {content}\n  answers  ", end="")
        case TextDelta(text=text):
            print(text, end="", flush=True)
        case _:
            pass


def main() -> None:
    """Three turns: streamed, async, and one with a typed result."""
    print("Loading SmolLM2 (135 million parameters); the first time it is fetched, 98 MB.")
    llm = LlamaCpp("smollm2", settings=Settings(temperature=0, max_tokens=60, stop="\n", seed=1))
    chat = Agent(llm, [multiply], max_rounds=3).engine(two_worked_turns())

    print("\nWhat is 17 times 23?")
    stream = chat.stream("What is 17 times 23?")
    for event in stream:
        show(event)
    turn = stream.result()
    print(f"\n  {turn.rounds} rounds, {turn.usage.input_tokens} tokens in, {turn.usage.output_tokens} out")

    print("\nAsync: Multiply 12 by 12.")
    print(f"  {asyncio.run(chat.asubmit('Multiply 12 by 12.')).text}")

    print("\nWith a typed result: What is 8 times 15?")
    typed = Agent(llm, [multiply], output_cls=Product, max_rounds=3)
    print(f"  {typed.run('What is 8 times 15?', history=two_worked_turns(typed=True)).output!r}")


if __name__ == "__main__":
    main()
