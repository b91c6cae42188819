"""The web server of the page: HTML and assets, the event stream of the chat, and the endpoint for the user's events.

All tabs show the same chat. Access control is in security.py, the event stream in feed.py.
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
    """Return the ASGI application that shows `machine` in a page to users with the `token`.

    `app.state.feed.close()` ends the streams of all pages.

    Args:
        machine: The chat.
        token: The secret that requests must have.
        host: The address the server listens on, which requests may name besides those of the loopback interface.
        models: Names of models that the page suggests.
        log_limit: The size of the event log in bytes, for readers that reconnect.
        keep_alive: Seconds without events after which a comment is sent.
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
        exception_handlers={HTTPException: _error_response},
    )
    app.state.machine = machine
    app.state.feed = Feed(machine, limit=log_limit, keep_alive=keep_alive)
    app.state.models = tuple(dict.fromkeys((*models, *(f"local:{name}" for name in WEIGHTS))))
    return app


async def _page(request: Request) -> Response:
    return FileResponse(PAGE / "index.html", media_type="text/html")


async def _events(request: Request) -> Response:
    """Stream the chat's events. A browser that reconnects sends the last id in a header, the page in the query."""
    last = request.headers.get("last-event-id") or request.query_params.get("after")
    feed: Feed = request.app.state.feed
    return StreamingResponse(feed.read(last), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _dispatch(request: Request) -> Response:
    """Dispatch an event to the chat, and respond with its effect."""
    machine: AsyncChatMachine = request.app.state.machine
    body = await json_body(request)
    if not isinstance(body, dict):
        raise HTTPException(400, 'expected a JSON object with a type, such as {"type": "INTERRUPT"}')
    try:
        change = machine.dispatch(cast("Mapping[str, Any]", body))
    except IllegalState as error:
        raise HTTPException(409, str(error)) from None
    except ValueError as error:
        raise HTTPException(400, str(error)) from None
    return JSONResponse({"ignored": change is not None and change.ignored, "state": machine.state})


async def _models(request: Request) -> Response:
    machine: AsyncChatMachine = request.app.state.machine
    return JSONResponse({"models": request.app.state.models, "model": machine.context.model})


async def _diagram(request: Request) -> Response:
    """Respond with the states, and the transition of each event."""
    moves = [
        {"from": state, "to": target, "event": event}
        for state, events in diagram().items()
        for event, target in events.items()
    ]
    return JSONResponse({"states": STATES, "moves": moves})


async def _error_response(request: Request, error: Exception) -> Response:
    exception = cast("HTTPException", error)
    return JSONResponse({"error": exception.detail}, status_code=exception.status_code)
