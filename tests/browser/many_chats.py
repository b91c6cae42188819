"""A server of several chats by the page's protocol, whose state is set by the test: no model, no machine, no store."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from socket import socket
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from uvicorn import Config, Server

from toolcast.apps.web.security import Guard
from toolcast.apps.web.web_server import PAGE
from toolcast.apps.web.web_startup import listen, page_url
from toolcast.chat.chat_context import STATES, ChatContext
from toolcast.chat.transitions import diagram
from toolcast.serve.access import Hosts, json_body

MODES = [
    {"name": "plan", "description": "Reads files, and changes nothing"},
    {"name": "build", "description": "Edits files after your approval"},
    {"name": "auto", "description": "Edits files and runs commands"},
]
MODELS = [
    {"id": "test:held", "provider": "test", "label": "held", "context": 200_000, "price": "$3 / $15 per million"},
    {"id": "test:other", "provider": "test", "label": "other", "context": 1_000_000, "price": None},
    {"id": "ollama:qwen3:8b", "provider": "ollama", "label": "qwen3:8b", "context": 40_960, "price": None},
]
ERRORS = [{"provider": "openai", "error": "no key: set OPENAI_API_KEY"}]
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Chat:
    """The state of one chat, and the events that its readers have been sent."""

    def __init__(self, id: str, title: str, updated: datetime) -> None:
        self.id = id
        self.title = title
        self.updated = updated
        self.state = "ready"
        self.context: dict[str, Any] = ChatContext(model="test:held").to_dict() | {"title": title, "mode": "build"}
        self.events: list[bytes] = []
        self.changed = asyncio.Event()

    def row(self) -> dict[str, Any]:
        """Return the chat's row in the list."""
        waiting = len(self.context["pending"]) if self.state == "waiting_for_tool_approval" else 0
        return {
            "id": self.id,
            "title": self.title,
            "updated": self.updated.isoformat(),
            "messages": len(self.context["messages"]),
            "model": self.context["model"],
            "state": self.state,
            "waiting": waiting,
        }

    def snapshot(self) -> bytes:
        """Return the whole chat as an event."""
        return encoded("snapshot", len(self.events), {"state": self.state, "context": self.context})

    def set(self, state: str, event: str = "TEST", **fields: Any) -> None:
        """Change the state and these fields, and send the change."""
        self.state = state
        self.context |= fields
        if "messages" in fields:
            fields["messages"] = {"from": 0, "messages": fields["messages"]}
        change = {"event": {"type": event}, "state": state, "path": [state], "ignored": False, "changes": fields}
        self.events.append(encoded("change", len(self.events) + 1, change))
        self.changed.set()
        self.changed = asyncio.Event()


def encoded(name: str, id: int, data: Any) -> bytes:
    return f"event: {name}\nid: {id}\ndata: {json.dumps(data)}\n\n".encode()


class ManyChats:
    """The chats of the server by their ids, newest first, and what the page has sent."""

    def __init__(self) -> None:
        self.chats: dict[str, Chat] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.dispatched: list[tuple[str, dict[str, Any]]] = []
        self.requests: list[str] = []
        self.now = datetime.now(UTC).astimezone()
        self.loop = asyncio.get_running_loop()
        self.closed = asyncio.Event()
        self.dropped = asyncio.Event()
        self.count = 0
        self.url = ""
        self.after_decision = "ready"
        self.refused_models: dict[str, str] = {"gibberish:": "gibberish is no provider"}
        self.add("First")

    def add(self, title: str = "", days: float = 0) -> Chat:
        """Begin a chat, which was last used some days ago."""
        self.count += 1
        chat = Chat(f"c{self.count}", title, self.now - timedelta(days=days))
        self.chats = {chat.id: chat, **self.chats}
        return chat

    def do(self, act: Callable[[], object]) -> None:
        """Do something where the server runs."""

        async def done() -> None:
            act()

        asyncio.run_coroutine_threadsafe(done(), self.loop).result(10)

    def drop_streams(self) -> None:
        """End the streams of all pages."""
        self.dropped.set()
        self.dropped = asyncio.Event()

    def chat(self, request: Request) -> Chat:
        """Return the chat that the request names."""
        if found := self.chats.get(request.path_params["id"]):
            return found
        raise HTTPException(404, "there is no such chat")

    async def listed(self, request: Request) -> Response:
        """List or begin chats."""
        if request.method == "POST":
            return JSONResponse({"id": self.add().id})
        words = request.query_params.get("search", "").lower()
        rows = [chat.row() for chat in self.chats.values() if words in chat.title.lower()]
        rows.sort(key=lambda row: row["updated"], reverse=True)
        begin, limit = int(request.query_params.get("before", 0)), int(request.query_params.get("limit", 50))
        more = str(begin + limit) if begin + limit < len(rows) else None
        limits = {"files": 3, "bytes": 1_000_000}
        return JSONResponse({"chats": rows[begin : begin + limit], "more": more, "single": False, "limits": limits})

    async def one(self, request: Request) -> Response:
        """Rename or delete a chat."""
        chat = self.chat(request)
        if request.method == "DELETE":
            del self.chats[chat.id]
        else:
            chat.title = (await json_body(request))["title"]
            chat.set(chat.state, title=chat.title)
        return JSONResponse({})

    async def export(self, request: Request) -> Response:
        """Respond with a file."""
        name = f'attachment; filename="{request.query_params["format"]}.txt"'
        return PlainTextResponse(self.chat(request).title, headers={"Content-Disposition": name})

    async def stream(self, request: Request) -> Response:
        """Stream the events of a chat."""
        chat = self.chat(request)
        last = request.headers.get("last-event-id") or request.query_params.get("after")

        async def read() -> AsyncIterator[bytes]:
            yield b"retry: 200\n\n"
            position = len(chat.events) if last is None else int(last)
            if last is None:
                yield chat.snapshot()
            dropped = self.dropped
            while not (self.closed.is_set() or dropped.is_set()):
                changed = chat.changed
                for event in chat.events[position:]:
                    yield event
                position = len(chat.events)
                waits = [asyncio.create_task(each.wait()) for each in (changed, self.closed, dropped)]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for task in waits:
                    task.cancel()

        return StreamingResponse(read(), media_type="text/event-stream")

    async def older(self, request: Request) -> Response:
        """Respond with no older messages."""
        self.chat(request)
        return JSONResponse({"from": 0, "messages": []})

    async def dispatch(self, request: Request) -> Response:
        """Record an event of the user, and apply those that change the queue, the mode or the model."""
        chat, event = self.chat(request), await json_body(request)
        self.dispatched.append((chat.id, event))
        queue, held = list(chat.context["queue"]), list(chat.context.get("held", []))
        count, both = len(queue), queue + held
        match event["type"]:
            case "QUEUE_MESSAGE":
                message = {"role": "user", "parts": [{"type": "text", "text": event["message"]}]}
                if chat.state == "ready":
                    chat.set("ready", "QUEUE_MESSAGE", messages=[*chat.context["messages"], message])
                else:
                    chat.set(chat.state, "QUEUE_MESSAGE", queue=[*queue, message])
            case "EDIT_QUEUED":
                both[event["index"]] = {"role": "user", "parts": [{"type": "text", "text": event["message"]}]}
                chat.set(chat.state, queue=both[:count], held=both[count:])
            case "REMOVE_QUEUED":
                del both[event["index"]]
                count -= event["index"] < count
                chat.set(chat.state, queue=both[:count], held=both[count:])
            case "HOLD_QUEUE" if event["index"] >= count:
                return JSONResponse({"state": chat.state, "ignored": True})
            case "HOLD_QUEUE":
                chat.set(chat.state, queue=both[: event["index"]], held=both[event["index"] :])
            case "RELEASE_QUEUE":
                chat.set(chat.state, queue=both, held=[])
            case "SET_MODE":
                chat.set(chat.state, mode=event["mode"])
            case "LOAD_MODEL":
                chat.set("ready", model=event["model_id"])
            case "APPROVE_TOOL_CALL" | "REJECT_TOOL_CALL":
                decided = event.get("fingerprints") or [event["fingerprint"]]
                pending = [asked for asked in chat.context["pending"] if asked["fingerprint"] not in decided]
                chat.set(chat.state if pending else self.after_decision, pending=pending)
            case "STOP":
                chat.set("ready", pending=[])
            case _:
                pass
        return JSONResponse({"state": chat.state, "ignored": False})

    async def upload(self, request: Request) -> Response:
        """Store a file."""
        self.chat(request)
        body = await request.body()
        head, _, rest = body.partition(b"\r\n\r\n")
        name = head.decode().partition('filename="')[2].partition('"')[0]
        data = rest.rpartition(b"\r\n--")[0].rpartition(b"\r\n--")[0] or rest.rpartition(b"\r\n--")[0]
        if name.endswith(".exe"):
            raise HTTPException(415, "this type of file cannot be sent")
        id = f"f{len(self.files) + 1}"
        self.files[id] = (name, data)
        is_image = data.startswith(b"\x89PNG")
        media_type = "image/png" if is_image else "text/plain"
        row = {"id": id, "name": name, "media_type": media_type, "size": len(data), "image": is_image}
        return JSONResponse({"files": [row]})

    async def file(self, request: Request) -> Response:
        """Respond with a file, or delete it."""
        if request.method == "DELETE":
            del self.files[request.path_params["file"]]
            return JSONResponse({})
        return Response(self.files[request.path_params["file"]][1], media_type="image/png")

    async def check(self, request: Request) -> Response:
        """Check a model."""
        error = self.refused_models.get((await json_body(request))["model"])
        return JSONResponse({"ok": error is None, "error": error})

    async def table(self, request: Request) -> Response:
        """Respond with the states and their transitions."""
        moves = [
            {"from": state, "to": target, "event": event}
            for state, events in diagram().items()
            for event, target in events.items()
        ]
        return JSONResponse({"states": STATES, "moves": moves})

    def app(self) -> Starlette:
        """Return the application."""
        chat = "/chats/{id}"
        return Starlette(
            routes=[
                Route("/", lambda request: FileResponse(PAGE / "index.html")),
                Route("/chats", self.listed, methods=["GET", "POST"]),
                Route(chat, self.one, methods=["PATCH", "DELETE"]),
                Route(f"{chat}/export", self.export),
                Route(f"{chat}/events", self.stream),
                Route(f"{chat}/messages", self.older),
                Route(f"{chat}/dispatch", self.dispatch, methods=["POST"]),
                Route(f"{chat}/files", self.upload, methods=["POST"]),
                Route(f"{chat}/files/{{file}}", self.file, methods=["GET", "DELETE"]),
                Route("/models", lambda request: JSONResponse({"models": MODELS, "errors": ERRORS})),
                Route("/models/check", self.check, methods=["POST"]),
                Route("/modes", lambda request: JSONResponse({"modes": MODES})),
                Route("/diagram", self.table),
                Mount("/assets", StaticFiles(directory=PAGE)),
            ],
            middleware=[Middleware(Guard, "the-token", Hosts())],
            exception_handlers={HTTPException: _error_response},
        )


async def _error_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code)


class _Server(Server):
    def __init__(self, config: Config, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Begin to serve, and report it."""
        await super().startup(sockets)
        self._ready()


@contextmanager
def many_chats() -> Iterator[ManyChats]:
    """Serve several chats; one exists already."""
    ready = threading.Event()
    made: list[ManyChats] = []

    async def serve() -> None:
        chats = ManyChats()
        with listen("127.0.0.1", 0) as listener:
            chats.url = page_url("127.0.0.1", listener.getsockname()[1], "the-token")
            config = Config(chats.app(), log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
            server = _Server(config, ready.set)
            made.append(chats)
            task = asyncio.create_task(server.serve([listener]))
            await chats.closed.wait()
            server.should_exit = True
            await task

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield made[0]
    finally:
        made[0].do(made[0].closed.set)
        thread.join(10)
        assert not thread.is_alive()
