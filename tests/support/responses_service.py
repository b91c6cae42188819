"""A double of the Responses API that stores responses and conversations, and runs responses in the background.

Written from the vendor's reference. A response is a text by a rule, or what `script` has for the next request. The
double keeps each stored response with the items before it, so that a request with `previous_response_id` has the whole
conversation: `contexts` are the items that each request led to, as the model sees them.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from support.loopback import CLOSE, END, Piece, chunk, head
from support.service_double import Received, Refused, ServiceDouble, as_json

Item = dict[str, Any]


def message(text: str) -> Item:
    """An item with a text of the model."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": f"msg_{len(text)}", "role": "assistant", "status": "completed", "content": content}


def function_call(name: str, arguments: Any, call_id: str = "call_1") -> Item:
    """An item with a call of a function."""
    body = {"call_id": call_id, "name": name, "arguments": json.dumps(arguments)}
    return {"type": "function_call", "id": f"fc_{call_id}", "status": "completed", **body}


class ResponsesService(ServiceDouble):
    """The service. `cuts`: after how many events each of the next streams is cut; `polls`: statuses before the end."""

    routes: ClassVar[Any] = (
        (r"POST /v1/responses", "create"),
        (r"GET /v1/responses/([^/]+)", "retrieve"),
        (r"POST /v1/responses/([^/]+)/cancel", "cancel"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.script: deque[Sequence[Item]] = deque()
        self.cuts: deque[int] = deque()
        self.polls: list[str] = []
        self.created: list[Received] = []
        self.contexts: list[list[Item]] = []
        self.responses: dict[str, dict[str, Any]] = {}
        self.conversations: dict[str, list[Item]] = {"conv_1": []}
        self.cancelled: list[str] = []
        self.queries: list[dict[str, str]] = []
        self._items: dict[str, list[Item]] = {}
        self._waits: dict[str, deque[str]] = {}

    def expire(self) -> None:
        """Delete all stored responses."""
        with self.lock:
            self._items.clear()

    def sizes(self) -> list[int]:
        """The bytes of the requests for a response."""
        return [len(request.body) for request in self.created]

    def create(self, request: Received) -> tuple[Piece, ...]:
        body = request.json
        self.created.append(request)
        before: list[Item] = []
        if (previous := body.get("previous_response_id")) is not None:
            if previous not in self._items:
                text = f"Previous response with id '{previous}' not found."
                error = {"message": text, "type": "invalid_request_error", "param": "previous_response_id"}
                raise Refused(400, {"error": {**error, "code": "previous_response_not_found"}})
            before = self._items[previous]
        if (conversation := body.get("conversation")) is not None:
            before = self.conversations[conversation]
        if body.get("background") and not body.get("store"):
            raise Refused(400, {"error": {"message": "Background mode requires store=true."}})
        items = [*before, *body["input"]]
        self._check_calls(items)
        self.contexts.append(items)
        output = list(self.script.popleft()) if self.script else [message(f"Answer {len(items)}.")]
        id = f"resp_{len(self.created)}"
        usage = {"input_tokens": len(json.dumps(items)), "output_tokens": 5, "total_tokens": 6}
        response = {"id": id, "object": "response", "status": "completed", "model": body["model"], "output": output}
        self.responses[id] = {**response, "usage": usage, "store": body.get("store")}
        if body.get("store"):
            self._items[id] = [*items, *output]
        if conversation is not None:
            self.conversations[conversation] = [*items, *output]
        if body["stream"]:
            return self._stream(id, -1)
        if body.get("background"):
            self._waits[id] = deque(self.polls)
            return as_json({**response, "status": "queued", "output": []})
        return as_json(self.responses[id])

    def retrieve(self, request: Received, id: str) -> tuple[Piece, ...]:
        self.queries.append(request.query)
        if request.query.get("stream") == "true":
            return self._stream(id, int(request.query["starting_after"]))
        if waits := self._waits[id]:
            return as_json({**self.responses[id], "status": waits.popleft(), "output": []})
        return as_json(self.responses[id])

    def cancel(self, request: Received, id: str) -> tuple[Piece, ...]:
        self.cancelled.append(id)
        return as_json({**self.responses[id], "status": "cancelled"})

    def events(self, id: str) -> list[dict[str, Any]]:
        """The events of a response, numbered."""
        response = self.responses[id]
        begun = {**response, "status": "in_progress", "output": [], "usage": None}
        found: list[dict[str, Any]] = [
            {"type": "response.created", "response": {**begun, "status": "queued"}},
            {"type": "response.in_progress", "response": begun},
        ]
        for place, item in enumerate(response["output"]):
            found += _item_events(place, item)
        found.append({"type": "response.completed", "response": response})
        return [{**event, "sequence_number": number} for number, event in enumerate(found)]

    def _stream(self, id: str, after: int) -> tuple[Piece, ...]:
        events = self.events(id)[after + 1 :]
        cut = self.cuts.popleft() if self.cuts else None
        frames = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
        sent = b"".join(frames if cut is None else frames[:cut])
        start = head(200, "content-type: text/event-stream", "transfer-encoding: chunked")
        if cut is None or cut >= len(frames):
            return (start, chunk(sent), END)
        # In the middle of the next event, so that a half of it arrives.
        rest = frames[cut][: len(frames[cut]) // 2]
        return (start, chunk(sent + rest), CLOSE)

    def _check_calls(self, items: Sequence[Item]) -> None:
        known = {item["call_id"] for item in items if item.get("type") == "function_call"}
        for item in items:
            if item.get("type") == "function_call_output" and item["call_id"] not in known:
                text = f"No tool call found for function call output with call_id {item['call_id']}."
                raise Refused(400, {"error": {"message": text, "type": "invalid_request_error"}})


def _item_events(place: int, item: Item) -> Iterator[dict[str, Any]]:
    at = {"output_index": place, "item_id": item["id"]}
    if item["type"] == "message":
        text = item["content"][0]["text"]
        empty = {**item, "status": "in_progress", "content": []}
        yield {"type": "response.output_item.added", "output_index": place, "item": empty}
        for word in text.split(" "):
            space = "" if text.startswith(word) else " "
            yield {"type": "response.output_text.delta", **at, "content_index": 0, "delta": space + word}
        yield {"type": "response.output_text.done", **at, "content_index": 0, "text": text}
    elif "arguments" not in item:
        yield {"type": "response.output_item.added", "output_index": place, "item": item}
    else:
        empty = {**item, "status": "in_progress", "arguments": ""}
        yield {"type": "response.output_item.added", "output_index": place, "item": empty}
        arguments = item["arguments"]
        for start in range(0, len(arguments), 5):
            yield {"type": "response.function_call_arguments.delta", **at, "delta": arguments[start : start + 5]}
        yield {"type": "response.function_call_arguments.done", **at, "arguments": arguments}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}
