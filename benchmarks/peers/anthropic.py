"""The Anthropic SDK: its raw events, and `.stream`, which parses the input of a tool so far with each event."""

# /// script
# dependencies = ["anthropic"]
# ///

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from anthropic import Anthropic, DefaultHttpxClient
from documents import Document, message_events
from peers.common import Peer, Way, Wire, main, transport, under


def request(document: Document, wire: Wire) -> tuple[Anthropic, dict[str, Any]]:
    """A client that is answered with what is on the wire, and the parameters of its call."""
    http = under(DefaultHttpxClient)
    client = Anthropic(api_key="none", http_client=http.Client(transport=transport(http, wire)), max_retries=0)
    tool = {"name": document.type.__name__, "input_schema": document.type.model_json_schema()}
    messages = [{"role": "user", "content": "Make one."}]
    return client, {"model": "claude-haiku-4-5", "max_tokens": 64_000, "messages": messages, "tools": [tool]}


def raw(document: Document, wire: Wire) -> Callable[[], Iterator[str]]:
    """The text of each event, then all of it."""
    client, parameters = request(document, wire)

    def read() -> Iterator[str]:
        parts = []
        for event in client.messages.create(**parameters, stream=True):
            if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                parts.append(event.delta.partial_json)
                yield parts[-1]
        yield "".join(parts)

    return read


def snapshots(document: Document, wire: Wire) -> Callable[[], Iterator[Any]]:
    """The input of the tool so far, as a dict."""
    client, parameters = request(document, wire)

    def read() -> Iterator[Any]:
        with client.messages.stream(**parameters) as stream:
            for event in stream:
                if event.type == "input_json":
                    yield event.snapshot
            yield stream.get_final_message().content[0].input

    return read


READY = "import anthropic; anthropic.Anthropic(api_key='none').messages"
RAW = Way("anthropic, raw events", "chunks", raw, message_events)
STREAM = Way("anthropic, `.stream`", "dicts", snapshots, message_events)

if __name__ == "__main__":
    main(Peer("anthropic", ("anthropic",), READY, (RAW, STREAM)))
