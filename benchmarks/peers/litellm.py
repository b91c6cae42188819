"""litellm: `completion(stream=True)`, its raw chunks."""

# /// script
# dependencies = ["litellm", "mcp"]
# ///
# Its `completion` with tools imports mcp, which it does not ask for.

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from canned import Person
from documents import Document
from openai import pydantic_function_tool
from peers.calling import Caller, achat, chat, tool_text
from peers.common import Peer, Way, Wire, main, openai_client

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise its import fetches a table of prices
import litellm

MESSAGES: Any = [{"role": "user", "content": "Make one."}]
REQUEST: Any = {"model": "openai/gpt-4o-mini", "messages": MESSAGES, "api_key": "none"}
PERSON: Any = {**REQUEST, "tools": [pydantic_function_tool(Person)]}


def chunks(document: Document, wire: Wire) -> Callable[[], Iterator[str]]:
    """The text of each chunk, then all of it."""
    client = openai_client(wire)
    tools = [pydantic_function_tool(document.type)]

    def read() -> Iterator[str]:
        parts = []
        for chunk in litellm.completion(**REQUEST, tools=tools, stream=True, client=client):
            for text in tool_text(chunk):
                parts.append(text)
                yield text
        yield "".join(parts)

    return read


READY = "import os; os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'; import litellm; litellm.completion"
WAYS = (Way("litellm, raw chunks", "chunks", chunks),)
CALLERS = (
    Caller("litellm, sync", lambda url: chat(partial(litellm.completion, **PERSON, api_base=url))),
    Caller("litellm, async", lambda url: achat(partial(litellm.acompletion, **PERSON, api_base=url))),
)

if __name__ == "__main__":
    main(Peer("litellm", ("litellm", "openai"), READY, WAYS, CALLERS))
