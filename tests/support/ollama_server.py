"""Ollama's `/api/chat` on the loopback interface, with answers given in the terms of its protocol.

with OllamaServer() as server:
    server.replies("Hello")                              # one answer, in two pieces, with its last line
    server.streams(delta(content="Hel"), delta(content="lo"), DONE)
    llm = server.llm()
"""

from __future__ import annotations

import json
from typing import Any

from support.loopback import END, Loopback, Piece, Request, chunk, head, whole
from toolcast import Ollama

MODEL = "m-1"
DONE: dict[str, Any] = {
    "model": MODEL,
    "message": {"role": "assistant", "content": ""},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 10,
    "eval_count": 5,
}


def delta(**fields: Any) -> dict[str, Any]:
    """Return one line of a stream: `thinking`, `content`, `tool_calls` of the message."""
    return {"model": MODEL, "message": {"role": "assistant", "content": "", **fields}, "done": False}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return an item of `tool_calls`."""
    return {"function": {"name": name, "arguments": arguments}}


def line(document: dict[str, Any] | bytes) -> bytes:
    """Return the bytes of one line of the answer; bytes are returned unchanged."""
    return document if isinstance(document, bytes) else json.dumps(document, ensure_ascii=False).encode() + b"\n"


class OllamaServer(Loopback):
    """A server whose answers are queued, one for each request."""

    def __init__(self) -> None:
        super().__init__()
        self.host = f"127.0.0.1:{self.port}"
        self.loaded: Any = []  # the models in the answer to `/api/ps`
        self.list_answer: bytes | None = None  # that answer, if it is another one
        self.show_answer: bytes = whole(b"{}")  # to `/api/show`
        self.shown: Any = None  # the document of that answer, in place of it
        self.list_requests = 0  # the requests of it, which are not among `requests`

    def llm(self, **options: Any) -> Ollama:
        """Return an LLM that sends its requests to this server."""
        return Ollama(MODEL, base_url=f"http://{self.host}", **{"max_retries": 0, **options})

    def _pieces(self, request: Request) -> tuple[Piece, ...]:
        if request.line.startswith("POST /api/show "):
            self.requests.remove(request)
            return (self.show_answer if self.shown is None else whole(json.dumps(self.shown).encode()),)
        if not request.line.startswith("GET /api/ps "):
            return super()._pieces(request)
        self.list_requests += 1
        self.requests.remove(request)
        return (self.list_answer or whole(json.dumps({"models": self.loaded}).encode()),)

    def streams(self, *documents: dict[str, Any] | bytes | Piece) -> None:
        """Queue an answer of these lines, each in a chunk of its own, with other pieces between them."""
        pieces = [chunk(line(each)) if isinstance(each, dict | bytes) else each for each in documents]
        self.answer(head(200, "content-type: application/x-ndjson", "transfer-encoding: chunked"), *pieces, END)

    @staticmethod
    def streamed(*documents: dict[str, Any]) -> bytes:
        """Return the bytes of an answer of these lines."""
        return b"".join(map(line, documents))

    def cut(self, *pieces: bytes) -> None:
        """Queue an answer that comes in these pieces."""
        chunks = [chunk(piece) for piece in pieces]
        self.answer(head(200, "content-type: application/x-ndjson", "transfer-encoding: chunked"), *chunks, END)

    def replies(self, text: str) -> None:
        """Queue an answer of this text."""
        half = len(text) // 2
        self.streams(delta(content=text[:half]), delta(content=text[half:]), DONE)

    def calls(self, *calls: dict[str, Any]) -> None:
        """Queue an answer that calls tools."""
        self.streams(delta(tool_calls=list(calls)), DONE)

    def breaks_off(self, *documents: dict[str, Any] | bytes | Piece) -> None:
        """Queue an answer that begins with these lines, and whose end is up to the last of `documents`."""
        pieces = [chunk(line(each)) if isinstance(each, dict | bytes) else each for each in documents]
        self.answer(head(200, "content-type: application/x-ndjson", "transfer-encoding: chunked"), *pieces)

    def fails(self, status: int, message: str) -> None:
        """Queue an HTTP error."""
        self.answer(whole(json.dumps({"error": message}).encode(), status, "content-type: application/json"))

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The parsed bodies of the requests that have one."""
        return [json.loads(request.body) for request in self.requests if request.body]
