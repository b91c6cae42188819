"""langchain-openai: `with_structured_output(...).stream`, and the Pydantic parser behind the plain text."""

# /// script
# dependencies = ["langchain-openai"]
# ///

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from canned import Person
from documents import Document, text_events
from langchain_core.output_parsers import PydanticOutputParser
from langchain_openai import ChatOpenAI
from openai import DefaultHttpxClient
from peers.calling import Caller, Ready, alast, last
from peers.common import BASE_URL, Peer, Way, Wire, main, transport, under

SETTINGS: Any = {"model": "gpt-4o-mini", "api_key": "none", "max_retries": 0}


def model(wire: Wire) -> ChatOpenAI:
    """A chat model that is answered with what is on the wire."""
    http = under(DefaultHttpxClient)
    return ChatOpenAI(**SETTINGS, base_url=BASE_URL, http_client=http.Client(transport=transport(http, wire)))


def structured(document: Document, wire: Wire) -> Callable[[], Iterator[Any]]:
    """An object for each chunk that the type accepts."""
    chain = model(wire).with_structured_output(document.type, method="function_calling")
    return lambda: chain.stream("Make one.")


def parser(document: Document, wire: Wire) -> Callable[[], Iterator[Any]]:
    """An object for each chunk of text that the type accepts."""
    chain = model(wire) | PydanticOutputParser(pydantic_object=document.type)
    return lambda: chain.stream("Make one.")


def sync(url: str) -> Ready:
    """One call and one short stream."""
    chain = ChatOpenAI(**SETTINGS, base_url=url).with_structured_output(Person, method="function_calling")
    return Ready(lambda: chain.invoke("Make one."), lambda: last(chain.stream("Make one.")))


def asynchronous(url: str) -> Ready:
    """The same, awaited."""
    chain = ChatOpenAI(**SETTINGS, base_url=url).with_structured_output(Person, method="function_calling")
    return Ready(lambda: chain.ainvoke("Make one."), lambda: alast(chain.astream("Make one.")))


PACKAGES = ("langchain-core", "langchain-openai", "openai")
READY = "from langchain_openai import ChatOpenAI; ChatOpenAI(model='m', api_key='none').with_structured_output"
BY_TOOL = Way("langchain, structured output", "typed", structured)
BY_TEXT = Way("langchain, Pydantic parser", "typed", parser, text_events, second=True)
CALLERS = (Caller("langchain, sync", sync), Caller("langchain, async", asynchronous))

if __name__ == "__main__":
    main(Peer("langchain", PACKAGES, READY, (BY_TOOL, BY_TEXT), CALLERS))
