"""A double of OpenAI's Responses API with remote MCP servers whose calls need approvals.

After developers.openai.com/api/docs/guides/tools-connectors-mcp ("Approvals"). It stores nothing: the item that asks
for an approval must come back unchanged, followed by one decision. `ran` are the calls that were approved, as they were
asked about. Any other request is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from support.loopback import Piece, whole
from support.service_double import Received, Refused, ServiceDouble, as_json


class ApprovingService(ServiceDouble):
    """The service: `ask(...)` adds calls for the next answer, `bodies` are the requests."""

    routes: ClassVar[tuple[tuple[str, str], ...]] = ((r"POST /responses", "_create"),)

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[Any] = []
        self.ran: list[tuple[str, str]] = []
        self.denied: list[str] = []
        self._asked: dict[str, dict[str, Any]] = {}
        self._decided: set[str] = set()
        self._next: list[dict[str, Any]] = []

    def ask(self, *calls: tuple[str, str], server: str = "docs") -> None:
        """Ask in the next answer for approvals of these calls: names and JSON texts of arguments."""
        for name, arguments in calls:
            id = f"mcpr_{len(self._asked) + 1}"
            item = {"type": "mcp_approval_request", "id": id, "server_label": server, "name": name}
            self._asked[id] = {**item, "arguments": arguments}
            self._next.append(self._asked[id])

    def _create(self, request: Received) -> tuple[Piece, ...]:
        body = request.json
        self.bodies.append(body)
        made = list(self._decisions(body["input"]))
        thought = {"type": "reasoning", "id": f"rs_{len(self.bodies)}", "summary": [], "encrypted_content": "gAAAA"}
        asked, self._next = self._next, []
        content = [{"type": "output_text", "text": "Done.", "annotations": []}]
        text = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        output = [*made, thought, *(asked or [text])]
        response = {"id": f"resp_{len(self.bodies)}", "object": "response", "model": body["model"], "output": output}
        response |= {"status": "completed", "usage": {"input_tokens": 10, "output_tokens": 2}}
        if not body["stream"]:
            return as_json(response)
        events = b"".join(
            b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())
            for event in _events(response)
        )
        return (whole(events, 200, "content-type: text/event-stream"),)

    def _decisions(self, items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Check the approvals, and run the calls whose decisions are new."""
        requests = {item["id"]: item for item in items if item.get("type") == "mcp_approval_request"}
        decisions = [item for item in items if item.get("type") == "mcp_approval_response"]
        if any(self._asked.get(id) != item for id, item in requests.items()):
            raise _refused("an mcp_approval_request was changed")
        if sorted(requests) != sorted(item["approval_request_id"] for item in decisions):
            raise _refused("not each mcp_approval_request has one mcp_approval_response")
        for decision in decisions:
            id = decision["approval_request_id"]
            if id in self._decided:
                continue
            self._decided.add(id)
            asked = self._asked[id]
            if decision["approve"] is True:
                self.ran.append((asked["name"], asked["arguments"]))
                about = {name: asked[name] for name in ("server_label", "name", "arguments")}
                yield {"type": "mcp_call", "id": f"mcp_{id}", **about, "output": "42", "approval_request_id": id}
            else:
                self.denied.append(decision["reason"])


def _refused(why: str) -> Refused:
    return Refused(400, {"error": {"type": "invalid_request_error", "message": why}})


def _events(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": {**response, "output": [], "status": "in_progress"}}
    for at, item in enumerate(response["output"]):
        yield {"type": "response.output_item.added", "output_index": at, "item": item}
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    yield {"type": "response.completed", "response": response}
