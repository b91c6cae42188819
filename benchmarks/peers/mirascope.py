"""mirascope: `model.stream` with a format, `structured_stream`."""

# /// script
# dependencies = ["mirascope[openai]"]
# ///

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from canned import Person
from documents import Document
from mirascope import llm
from mirascope.llm.providers.openai.completions import OpenAICompletionsProvider
from peers.calling import Caller, Ready, last
from peers.common import Peer, Way, Wire, main, openai_client


def structured(document: Document, wire: Wire) -> Callable[[], Iterator[Any]]:
    """A partial model for each chunk, then the object."""
    provider = OpenAICompletionsProvider(api_key="none")
    provider.client = openai_client(wire)
    llm.register_provider(provider, scope="openai/")
    model = llm.Model("openai/gpt-4o-mini:completions")
    form = llm.format(document.type, mode="tool")

    def read() -> Iterator[Any]:
        response = model.stream("Make one.", format=form)
        yield from response.structured_stream()
        yield response.parse()

    return read


def sync(url: str) -> Ready:
    """One call and one short stream."""
    llm.register_provider("openai:completions", scope="openai/", api_key="none", base_url=url)
    model, form = llm.Model("openai/gpt-4o-mini:completions"), llm.format(Person, mode="tool")

    def stream() -> Person:
        response = model.stream("Make one.", format=form)
        last(response.structured_stream())
        return response.parse()

    return Ready(lambda: model.call("Make one.", format=form).parse(), stream)


READY = """
from mirascope import llm
llm.register_provider('openai', api_key='none')
llm.Model('openai/gpt-4o-mini:completions').stream
"""
TOOL = "__mirascope_formatted_output_tool__"
WAYS = (Way("mirascope", "typed", structured, tool=TOOL),)
CALLERS = (Caller("mirascope, sync", sync, f"{TOOL}/v1"),)

if __name__ == "__main__":
    main(Peer("mirascope", ("mirascope", "openai"), READY, WAYS, CALLERS))
