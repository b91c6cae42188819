"""The web page's server: the page and its assets, the events of the chat, and the way to say something to it.

All tabs show the same chat. What may be asked for, and by whom, is in security.py; what is sent, in feed.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ...chat.context import STATES
from ...chat.machine import AsyncChatMachine
from ...chat.transitions import diagram
from ...errors import IllegalState
from ...llms.local.weights import WEIGHTS
from .feed import KEEP_ALIVE, LOG_LIMIT, Feed
from .security import ASSETS, Guard, Hosts, json_body

PAGE: Final = Path(__file__).with_name("page")


def make_app(
    machine: AsyncChatMachine,
    *,
    token: str,
    host: str = "127.0.0.1",
    models: Sequence[str] = (),
    log_limit: int = LOG_LIMIT,
    keep_alive: float = KEEP_ALIVE,
) -> Starlette:
    """The ASGI application that shows `machine` in a page, to whoever knows `token`.

    `host` is where it listens: under that name it may be asked for, besides those of the loopback. `models` are
    offered to be switched to. `log_limit` is how many bytes of events are kept for a reader that comes back;
    `keep_alive` is in seconds. `app.state.feed.close()` ends the streams of all pages.
    """
    app = Starlette(
        routes=[
            Route("/", _page),
            Route("/events", _events),
            Route("/dispatch", _dispatch, methods=["POST"]),
            Route("/models", _models),
            Route("/diagram", _diagram),
            Mount(ASSETS.rstrip("/"), StaticFiles(directory=PAGE)),
        ],
        middleware=[Middleware(Guard, token, Hosts(host))],
        exception_handlers={HTTPException: _refused},
    )
    app.state.machine = machine
    app.state.feed = Feed(machine, limit=log_limit, keep_alive=keep_alive)
    app.state.models = tuple(dict.fromkeys((*models, *(f"local:{name}" for name in WEIGHTS))))
    return app


async def _page(request: Request) -> Response:
    return FileResponse(PAGE / "index.html", media_type="text/html")


async def _events(request: Request) -> Response:
    """The chat's events. A browser that comes back says in a header what it has had last, a page in the query."""
    last = request.headers.get("last-event-id") or request.query_params.get("after")
    feed: Feed = request.app.state.feed
    return StreamingResponse(feed.read(last), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _dispatch(request: Request) -> Response:
    """Say something to the chat: the answer is whether it could happen."""
    machine: AsyncChatMachine = request.app.state.machine
    said = await json_body(request)
    if not isinstance(said, dict):
        raise HTTPException(400, 'send an object with a type, such as {"type": "INTERRUPT"}')
    try:
        change = machine.dispatch(cast("Mapping[str, Any]", said))
    except IllegalState as error:
        raise HTTPException(409, str(error)) from None
    except ValueError as error:
        raise HTTPException(400, str(error)) from None
    return JSONResponse({"ignored": change is not None and change.ignored, "state": machine.state})


async def _models(request: Request) -> Response:
    machine: AsyncChatMachine = request.app.state.machine
    return JSONResponse({"models": request.app.state.models, "model": machine.context.model})


async def _diagram(request: Request) -> Response:
    """The states, and where each event leads from them."""
    moves = [
        {"from": state, "to": target, "event": event}
        for state, events in diagram().items()
        for event, target in events.items()
    ]
    return JSONResponse({"states": STATES, "moves": moves})


async def _refused(request: Request, error: Exception) -> Response:
    refused = cast("HTTPException", error)
    return JSONResponse({"error": refused.detail}, status_code=refused.status_code)
