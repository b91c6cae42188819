"""A scripted Ollama on loopback, for the pictures of the gallery.

    with ScriptedOllama() as server:
        server.replies("Hello.")                   # the answer to the next request
        server.calls(call("read_file", path="a.py"))
        gate = server.waits("Let me ", "see.")     # stops between the pieces until gate.set()

It lists two installed models, and describes each with a context of 32,768 tokens. Needs nothing but Python.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypeAlias

MODEL = "qwen3:8b"
MODELS = (MODEL, "llama3.2:3b", "gemma3:4b")
CONTEXT = 32_768

Piece: TypeAlias = "Mapping[str, Any] | threading.Event"


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Return a tool call of a response."""
    return {"function": {"name": tool, "arguments": arguments}}


def text(content: str) -> list[Piece]:
    """Return a text as pieces of a stream, one for each word."""
    return [{"content": word} for word in re.findall(r"\s*\S+\s*$|\s*\S+", content)]


class ScriptedOllama(ThreadingHTTPServer):
    """The server. A request for which no answer is queued is answered by one sentence."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.host = f"http://127.0.0.1:{self.server_address[1]}"
        self._answers = deque[list[Piece]]()
        self._gates = list[threading.Event]()

    def replies(self, content: str, *, thinking: str = "") -> None:
        """Queue an answer."""
        self._answers.append([*([{"thinking": thinking}] if thinking else ()), *text(content)])

    def calls(self, *calls: dict[str, Any], content: str = "") -> None:
        """Queue an answer that calls tools."""
        self._answers.append([*text(content), {"tool_calls": list(calls)}])

    def waits(self, before: str = "", after: str = "", *, thinking: str = "") -> threading.Event:
        """Queue an answer that stops after `before`, and return the event that lets it continue."""
        gate = threading.Event()
        self._gates.append(gate)
        thought: list[Piece] = [{"thinking": thinking}] if thinking else []
        self._answers.append([*thought, *text(before), gate, *text(after)])
        return gate

    def fails(self, error: str) -> None:
        """Queue an error, after the headers of a success as Ollama sends it."""
        self._answers.append([{"error": error}])

    def next_answer(self) -> Sequence[Piece]:
        """Return the answer to the next request."""
        return self._answers.popleft() if self._answers else [{"content": "All done."}]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        for gate in self._gates:
            gate.set()
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedOllama

    def do_GET(self) -> None:
        """Answer what lists models."""
        if self.path.startswith("/v1"):
            self._json({"object": "list", "data": [{"id": name, "object": "model"} for name in MODELS]})
        elif self.path == "/api/version":
            self._json({"version": "0.12.0"})
        else:
            row = {"size": 5_200_000_000, "context_length": CONTEXT}
            self._json({"models": [{"name": name, "model": name, **row} for name in MODELS]})

    def do_POST(self) -> None:
        """Answer a request for a chat, or for the description of a model."""
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if self.path == "/api/show":
            name = str(body.get("model"))
            info = {"general.architecture": "qwen3", "qwen3.context_length": CONTEXT}
            features = ["completion", "tools", "thinking", "vision"]
            known = {"model_info": info, "capabilities": features, "details": {}}
            self._json(
                known if name in MODELS else {"error": f"model '{name}' not found"}, 200 if name in MODELS else 404
            )
        elif self.path == "/api/chat" and body.get("model") in MODELS:
            self._stream(body)
        else:
            self._json({"error": f"model '{body.get('model')}' not found"}, 404)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""

    def _json(self, data: Any, status: int = 200) -> None:
        content = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, body: Mapping[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/x-ndjson")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        count = 0
        for piece in self.server.next_answer():
            if isinstance(piece, threading.Event):
                piece.wait(120)
                continue
            if "error" in piece:
                self._line(piece)
                self.wfile.write(b"0\r\n\r\n")
                return
            count += 1
            self._line(
                {"model": body["model"], "message": {"role": "assistant", "content": "", **piece}, "done": False}
            )
        usage = {"prompt_eval_count": 400 + len(json.dumps(body["messages"])) // 4, "eval_count": 3 * count}
        message = {"role": "assistant", "content": ""}
        self._line({"model": body["model"], "message": message, "done": True, "done_reason": "stop", **usage})
        self.wfile.write(b"0\r\n\r\n")

    def _line(self, data: Any) -> None:
        content = json.dumps(data, ensure_ascii=False).encode() + b"\n"
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        self.wfile.flush()
