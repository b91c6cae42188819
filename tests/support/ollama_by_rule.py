"""An Ollama on the loopback interface that answers any number of requests, each by a rule.

    with OllamaByRule(write_then_reflect) as server:
        ... ollama_client_config={"host": server.host}, model_name=MODEL ...

A rule gets the messages of a request, as plain data, and returns the message that answers it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self, TypeAlias

MODEL = "by-rule"
ChatMessage: TypeAlias = dict[str, Any]
Rule: TypeAlias = Callable[[Sequence[ChatMessage]], ChatMessage]


def reply(content: str, **fields: Any) -> ChatMessage:
    return {"role": "assistant", "content": content, **fields}


def calls(tool: str, /, **arguments: Any) -> ChatMessage:
    return reply("", tool_calls=[{"function": {"name": tool, "arguments": arguments}}])


def cycle_of(messages: Sequence[ChatMessage]) -> int:
    """Return the number of the cycle that a request belongs to, from its first user message."""
    (number,) = [
        int(n) for m in messages if m["role"] == "user" for n in re.findall(r"^Begin cycle (\d+)", m["content"])
    ]
    return number


def write_then_reflect(messages: Sequence[ChatMessage]) -> ChatMessage:
    """Store a value under a key of this cycle, list the keys, and reflect on how many there are."""
    cycle = cycle_of(messages)
    results = [message["content"] for message in messages if message["role"] == "tool"]
    if not results:
        return calls("write", key=f"c{cycle}", value="x" * cycle)
    if len(results) == 1:
        return calls("pattern_search", pattern="c")
    return reply(f"In cycle {cycle} I have {len(results[1].split(', '))} keys.")


class OllamaByRule(ThreadingHTTPServer):
    """The server; `requests` are the bodies of the chats so far."""

    daemon_threads = True

    def __init__(self, rule: Rule = write_then_reflect, models: Sequence[str] = (MODEL,)) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.rule, self.models = rule, models
        self.requests: list[ChatMessage] = []
        self.host = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect: tests kill them."""

    def __enter__(self) -> Self:
        self._thread = Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: OllamaByRule

    def do_GET(self) -> None:
        models = [{"name": name, "model": name} for name in self.server.models]
        self._answer({"models": models} if self.path == "/api/tags" else {"version": "0"})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(asked)
        message = self.server.rule(asked["messages"])
        self._answer(
            {
                "model": asked["model"],
                "message": message,
                "done": True,
                "done_reason": "stop",
                "prompt_eval_count": 100,
                "eval_count": 10,
            }
        )

    def _answer(self, document: ChatMessage) -> None:
        body = json.dumps(document).encode() + b"\n"
        self.send_response(200)
        self.send_header("content-type", "application/x-ndjson")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Log nothing: tests read `requests`."""
