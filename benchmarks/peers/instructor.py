"""instructor: `create_partial`, sync and async."""

# /// script
# dependencies = ["instructor"]
# ///

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from canned import Person
from documents import Document
from instructor import from_openai
from openai import AsyncOpenAI, OpenAI
from peers.calling import Caller, Ready, alast, last
from peers.common import Peer, Way, Wire, main, openai_client

MESSAGES: Any = [{"role": "user", "content": "Make one."}]
REQUEST: Any = {"model": "gpt-4o-mini", "messages": MESSAGES, "max_retries": 0, "strict": False}


def partial(document: Document, wire: Wire) -> Callable[[], Iterator[Any]]:
    """A partial model for each chunk."""
    client = from_openai(openai_client(wire))
    return lambda: client.create_partial(document.type, **REQUEST)


def apartial(document: Document, wire: Wire) -> Callable[[], AsyncIterator[Any]]:
    """The same from the async client."""
    client = from_openai(openai_client(wire, "AsyncOpenAI"))
    return lambda: client.create_partial(document.type, **REQUEST)


def caller(kind: Any, last: Callable[[Any], Any]) -> Callable[[str], Ready]:
    """One call and one short stream, with the OpenAI client of this kind."""

    def make(url: str) -> Ready:
        client = from_openai(kind(api_key="none", base_url=url))
        return Ready(
            lambda: client.create(response_model=Person, **REQUEST),
            lambda: last(client.create_partial(Person, **REQUEST)),
        )

    return make


READY = "import instructor, openai; instructor.from_openai(openai.OpenAI(api_key='none')).create_partial"
WAYS = (Way("instructor, sync", "typed", partial), Way("instructor, async", "typed", apartial, second=True))
CALLERS = (
    Caller("instructor, sync", caller(OpenAI, last)),
    Caller("instructor, async", caller(AsyncOpenAI, alast)),
)

if __name__ == "__main__":
    main(Peer("instructor", ("instructor", "openai"), READY, WAYS, CALLERS))
