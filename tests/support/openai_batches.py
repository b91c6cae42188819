"""A double of the batch API of OpenAI and Groq on the loopback interface, written from their references.

    with OpenAIBatchServer() as server:
        ... use server.url as the base URL of a client ...

`OpenAIBatchService` is the same without a socket: it is the `network` of an LLM, and `VirtualClock` its clock.

A batch goes one status further with each request for its status: validating, in_progress, finalizing, completed.
`answer` makes the response to each request of a batch: the status and the body of `/v1/chat/completions`, by default a
tool call with `{"text": <the last message>}`. `/v1/chat/completions` itself answers likewise.

Faults: `before` and `after` are called with the method and the path of each request, before it is processed and
before its response is sent; they may return a response instead, or raise `Dropped` to cut the connection. `ends`
replaces the last statuses of a batch; `edit` changes the lines of its results.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import anyio.lowlevel

from toolcast.errors import StreamInterrupted
from toolcast.values.credentials import reveal
from toolcast.values.http_request import HTTPRequest

Reply = tuple[int, bytes]
CHAT = "/v1/chat/completions"
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def parts_of(headers: Message, body: bytes) -> dict[Any, Any]:
    """The parts of a form by name, as the parser of the standard library reads them."""
    head = f"content-type: {headers['content-type']}\r\n\r\n".encode()
    form = BytesParser(policy=HTTP).parsebytes(head + body)
    return {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}


class Dropped(Exception):
    """Cut the connection without a response."""


def completion(body: dict[str, Any], arguments: Any) -> dict[str, Any]:
    """The response of `/v1/chat/completions` that calls the first tool with `arguments`."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    name = body["tools"][0]["function"]["name"]
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": text}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": None}
    base = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"]}
    return {**base, "choices": [choice], "usage": USAGE}


def last_text(body: dict[str, Any]) -> str:
    """The text of the last user message."""
    return next(str(each["content"]) for each in reversed(body["messages"]) if each["role"] == "user")


def echo(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Answer with the text of the last user message."""
    return 200, completion(body, {"text": last_text(body)})


class VirtualClock:
    """A clock that passes only while something sleeps."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0
        self.sleeps: list[float] = []

    def now(self) -> float:
        return self.seconds

    time = now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.seconds += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)
        await anyio.lowlevel.checkpoint()


class _Response:
    """A response of the service without a socket; `pieces` are read one by one, and may raise an error instead."""

    def __init__(self, status: int, pieces: list[bytes | Exception]) -> None:
        self.status = status
        self.headers: dict[str, str] = {}
        self._pieces = iter(pieces)

    def read(self, limit: float | None = None, /) -> bytes:
        piece = next(self._pieces, b"")
        if isinstance(piece, Exception):
            raise piece
        return piece

    def close(self) -> None:
        pass


class _AsyncResponse(_Response):
    async def read(self, limit: float | None, /) -> bytes:  # type: ignore[override]  # the async counterpart
        return super().read(limit)

    async def aclose(self) -> None:
        pass


class OpenAIBatchService:
    """The service; see the module.

    Attributes:
        batches: The batch objects by id, the oldest first.
        files: The contents of the files that are not deleted, by id.
        log: The method and path of each request.
        headers: The headers of each request.
        received: The method, the target and the body of each request.
        paused: A lock; while a test has it, no request is processed.
        submitted: The requests of all batches that were created: the bodies, by custom id.
        live: The bodies of the requests to `/v1/chat/completions`.
        one_at_a_time: True to refuse a batch while another one runs.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], tuple[int, dict[str, Any]]] = echo, prefix: str = "") -> None:
        self.answer = answer
        self.one_at_a_time = False
        self.prefix = prefix  # of the paths: Groq's begin with /openai
        self.batches: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.names: dict[str, str] = {}
        self.log: list[str] = []
        self.headers: list[Message] = []
        self.received: list[tuple[str, str, bytes]] = []
        self.submitted: dict[str, dict[str, Any]] = {}
        self.live: list[dict[str, Any]] = []
        self.before: Callable[[str, str], Reply | None] = lambda method, path: None
        self.after: Callable[[str, str], Reply | None] = lambda method, path: None
        self.ends: Callable[[dict[str, Any]], str] = lambda batch: "completed"
        self.edit: Callable[[str, list[dict[str, Any]]], list[dict[str, Any]]] = lambda kind, lines: lines
        self.page = 20
        self.url = f"http://127.0.0.1:1{prefix}/v1"
        self._numbers = iter(range(1, 1_000_000))
        self.paused = threading.RLock()
        self.cut: Callable[[str, str, bytes], list[bytes | Exception]] = lambda method, path, body: [body]
        self.now: Callable[[], float] = time.time

    # A network

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Any:
        return self._respond(_Response, request)

    async def aopen(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Any:
        await anyio.lowlevel.checkpoint()
        return self._respond(_AsyncResponse, request)

    def _respond(self, kind: type[_Response], request: HTTPRequest) -> _Response:
        headers = Message()
        for name, value in request.headers.items():
            headers[name] = reveal(value)
        target = request.target.removeprefix(self.url.removesuffix(f"{self.prefix}/v1"))
        try:
            status, body = self.handle(request.method, target, headers, request.body)
        except Dropped:
            raise StreamInterrupted("the connection was closed without a response") from None
        return kind(status, self.cut(request.method, target, body))

    def close(self) -> None:
        pass

    async def aclose(self) -> None:
        pass

    def handle(self, method: str, target: str, headers: Message, body: bytes) -> Reply:
        """Process one request."""
        url = urlsplit(target)
        path = url.path.removeprefix(self.prefix)
        with self.paused:
            self.log.append(f"{method} {path}")
            self.headers.append(headers)
            self.received.append((method, target, body))
            if not (headers.get("authorization") or "").startswith("Bearer "):
                return _error(401, "Missing bearer authentication in header", "invalid_request_error")
            replaced = self.before(method, path)
            reply = replaced or self._route(method, path, parse_qs(url.query), headers, body)
            return self.after(method, path) or reply

    @property
    def running(self) -> list[dict[str, Any]]:
        """The batches that have not ended."""
        return [batch for batch in self.batches.values() if batch["status"] not in _ENDS]

    def _route(self, method: str, path: str, query: dict[str, list[str]], headers: Message, body: bytes) -> Reply:
        routes: list[tuple[str, str, Callable[..., Reply]]] = [
            ("POST", r"/v1/files", lambda: self._upload(headers, body)),
            ("GET", r"/v1/files/([^/]+)/content", self._download),
            ("DELETE", r"/v1/files/([^/]+)", self._delete),
            ("POST", r"/v1/batches", lambda: self._create(body)),
            ("GET", r"/v1/batches", lambda: self._list(query)),
            ("GET", r"/v1/batches/([^/]+)", self._retrieve),
            ("POST", r"/v1/batches/([^/]+)/cancel", self._cancel),
            ("POST", CHAT, lambda: self._chat(body)),
        ]
        for verb, pattern, handler in routes:
            if verb == method and (found := re.fullmatch(pattern, path)):
                return handler(*found.groups())
        return _error(404, f"Unknown request URL: {method} {path}", "invalid_request_error")

    def _upload(self, headers: Message, body: bytes) -> Reply:
        parts = parts_of(headers, body)
        if "file" not in parts or "purpose" not in parts:
            return _error(400, "'file' and 'purpose' are required", "invalid_request_error")
        if parts["purpose"].get_payload(decode=True).decode().strip() != "batch":
            return _error(400, "purpose must be 'batch'", "invalid_request_error")
        id = self._store("input", parts["file"].get_payload(decode=True), parts["file"].get_filename())
        return _ok(self._file(id))

    def _store(self, kind: str, content: bytes, name: str) -> str:
        id = f"file-{kind}-{next(self._numbers)}"
        self.files[id], self.names[id] = content, name
        return id

    def _file(self, id: str) -> dict[str, Any]:
        size = {"bytes": len(self.files[id]), "created_at": 1, "filename": self.names[id]}
        return {"id": id, "object": "file", "purpose": "batch", "status": "processed", **size}

    def _download(self, id: str) -> Reply:
        return (200, self.files[id]) if id in self.files else _error(404, f"No such File object: {id}")

    def _delete(self, id: str) -> Reply:
        if id not in self.files:
            return _error(404, f"No such File object: {id}")
        del self.files[id]
        return _ok({"id": id, "object": "file", "deleted": True})

    def _create(self, body: bytes) -> Reply:
        given = json.loads(body)
        if missing := [name for name in ("input_file_id", "endpoint", "completion_window") if name not in given]:
            return _error(400, f"Missing required parameter: '{missing[0]}'.", "invalid_request_error")
        if given["input_file_id"] not in self.files:
            return _error(400, f"Invalid value: '{given['input_file_id']}' is no file.", "invalid_request_error")
        metadata = given.get("metadata") or {}
        assert len(metadata) <= 16 and all(isinstance(each, str) for each in metadata.values())
        id = f"batch_{next(self._numbers)}"
        times = dict.fromkeys([f"{name}_at" for name in (*_STEPS[1:], "failed", "expired", "cancelling", "cancelled")])
        self.batches[id] = batch = {
            "id": id,
            "object": "batch",
            "endpoint": given["endpoint"],
            "errors": None,
            "input_file_id": given["input_file_id"],
            "completion_window": given["completion_window"],
            "status": "validating",
            "output_file_id": None,
            "error_file_id": None,
            "created_at": int(self.now()),
            "expires_at": int(self.now()) + 86400,
            **times,
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "metadata": metadata or None,
        }
        lines, problems = self._validate(batch)
        batch["request_counts"]["total"] = len(lines)
        if problems:
            batch["errors"] = {"object": "list", "data": problems}
        else:
            self.submitted.update({line["custom_id"]: line["body"] for line in lines})
        return _ok(batch)

    def _validate(self, batch: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        lines, problems, ids = [], [], set()
        for number, raw in enumerate(self.files[batch["input_file_id"]].splitlines(), 1):
            line = json.loads(raw)
            lines.append(line)
            for wrong, code in (
                (line["custom_id"] in ids, "duplicate_custom_id"),
                (line["method"] != "POST", "invalid_method"),
                (line["url"] != batch["endpoint"], "mismatched_endpoint"),
                (line["body"].get("stream"), "invalid_request"),
            ):
                if wrong:
                    problems.append({"code": code, "message": "The line is invalid.", "line": number, "param": None})
            ids.add(line["custom_id"])
        others = [each for each in self.running if each is not batch and not each["errors"]]
        if self.one_at_a_time and others and batch["status"] == "validating":
            message = "Enqueued token limit reached."
            problems.append({"code": "token_limit_exceeded", "message": message, "line": None})
        return lines, problems

    def _list(self, query: dict[str, list[str]]) -> Reply:
        newest = [*reversed(self.batches.values())]
        after = query.get("after", [None])[0]
        start = 0 if after is None else 1 + next(i for i, each in enumerate(newest) if each["id"] == after)
        page = newest[start : start + min(int(query.get("limit", ["20"])[0]), self.page)]
        more = start + len(page) < len(newest)
        ids = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
        return _ok({"object": "list", "data": page, **ids, "has_more": more})

    def _retrieve(self, id: str) -> Reply:
        batch = self.batches.get(id)
        if batch is None:
            return _error(404, f"No batch found with id '{id}'.", "invalid_request_error")
        self._advance(batch)
        return _ok(batch)

    def _advance(self, batch: dict[str, Any]) -> None:
        status = batch["status"]
        if batch["errors"]:
            batch["status"] = "failed"
        elif status == "cancelling":
            self._end(batch, "cancelled")
        elif status == "finalizing":
            self._end(batch, self.ends(batch))
        elif status not in _ENDS:
            batch["status"] = _STEPS[_STEPS.index(status) + 1]

    def _end(self, batch: dict[str, Any], status: str) -> None:
        """Answer the requests: all of them, or the first half if the batch does not complete."""
        batch["status"] = status
        if status == "failed":
            return
        lines, _ = self._validate(batch)
        done = lines if status == "completed" else lines[: len(lines) // 2]
        results: dict[str, list[dict[str, Any]]] = {"output": [], "error": []}
        for number, line in enumerate(lines):
            response, error = None, None
            if number < len(done):
                code, body = self.answer(line["body"])
                response = {"status_code": code, "request_id": f"req_{number}", "body": body}
                kind = "output" if code < 300 else "error"
            else:
                kind = "error"
                error = {"code": f"batch_{status}", "message": f"This request was not executed: {status}."}
            given = {"id": f"batch_req_{number}", "custom_id": line["custom_id"], "response": response, "error": error}
            results[kind].append(given)
        counts = batch["request_counts"]
        counts["completed"], counts["failed"] = len(results["output"]), len(results["error"])
        for kind, found in results.items():
            if made := self.edit(kind, found):
                content = b"".join(json.dumps(line).encode() + b"\n" for line in made)
                batch[f"{kind}_file_id"] = self._store(kind, content, f"{batch['id']}_{kind}.jsonl")

    def _cancel(self, id: str) -> Reply:
        batch = self.batches[id]
        if batch["status"] in _ENDS:
            return _error(409, f"Cannot cancel a batch with status '{batch['status']}'.", "invalid_request_error")
        batch["status"] = "cancelling"
        return _ok(batch)

    def _chat(self, body: bytes) -> Reply:
        given = json.loads(body)
        self.live.append(given)
        status, answer = self.answer(given)
        return status, json.dumps(answer).encode()


class OpenAIBatchServer(OpenAIBatchService):
    """The service as a server on the loopback interface."""

    def __init__(self, answer: Callable[[dict[str, Any]], tuple[int, dict[str, Any]]] = echo, prefix: str = "") -> None:
        super().__init__(answer, prefix)
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                try:
                    status, sent = double.handle(self.command, self.path, self.headers, body)
                except Dropped:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_POST = do_DELETE = _serve

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # a client that was killed

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}{prefix}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()


_STEPS = ("validating", "in_progress", "finalizing", "completed")
_ENDS = ("completed", "failed", "expired", "cancelled")


def _ok(value: dict[str, Any]) -> Reply:
    return 200, json.dumps(value).encode()


def _error(status: int, message: str, kind: str | None = None) -> Reply:
    return status, json.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}}).encode()
