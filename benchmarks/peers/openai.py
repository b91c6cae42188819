"""The OpenAI SDK: its raw chunks, and `.stream` with a tool, which gives partly parsed arguments."""

# /// script
# dependencies = ["openai"]
# ///

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from canned import Person
from documents import Document
from openai import AsyncOpenAI, OpenAI, pydantic_function_tool
from peers.calling import Caller, achat, chat, tool_text
from peers.common import Peer, Way, Wire, main, openai_client

REQUEST: Any = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Make one."}]}


def chunks(document: Document, wire: Wire) -> Callable[[], Iterator[str]]:
    """The text of each chunk, then all of it."""
    create = partial(openai_client(wire).chat.completions.create, tools=[pydantic_function_tool(document.type)])

    def read() -> Iterator[str]:
        parts = []
        for chunk in create(**REQUEST, stream=True):
            for text in tool_text(chunk):
                parts.append(text)
                yield text
        yield "".join(parts)

    return read


def arguments(document: Document, wire: Wire) -> Callable[[], Iterator[Any]]:
    """The arguments so far, as a dict, then the object."""
    open_stream = partial(openai_client(wire).chat.completions.stream, tools=[pydantic_function_tool(document.type)])

    def read() -> Iterator[Any]:
        with open_stream(**REQUEST) as stream:
            for event in stream:
                if event.type == "tool_calls.function.arguments.delta":
                    yield event.parsed_arguments
            yield stream.get_final_completion().choices[0].message.tool_calls[0].function.parsed_arguments

    return read


def person(kind: Any, url: str) -> Callable[..., Any]:
    """The function that asks for a person, of a client of this kind."""
    create = kind(api_key="none", base_url=url).chat.completions.create
    return partial(create, **REQUEST, tools=[pydantic_function_tool(Person)])


READY = "import openai; openai.OpenAI(api_key='none').chat.completions"
WAYS = (Way("openai, raw chunks", "chunks", chunks), Way("openai, `.stream` with tools", "dicts", arguments))
SYNC = Caller("openai, sync", lambda url: chat(person(OpenAI, url)))
ASYNC = Caller("openai, async", lambda url: achat(person(AsyncOpenAI, url)))

if __name__ == "__main__":
    main(Peer("openai", ("openai",), READY, WAYS, (SYNC, ASYNC)))
