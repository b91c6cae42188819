"""The web server of the page: HTML and assets, chats with their event streams and files, models and modes.

All tabs that show a chat get the same events. Access control is in security.py, the event stream in feed.py, the chats
in chats.py.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ...chat.chat_context import STATES
from ...chat.machine import AsyncChatMachine
from ...chat.transitions import diagram
from ...errors import IllegalState, SessionLocked, ToolcastError
from ...llms.local.weights import WEIGHTS
from ...messages import Message, user
from ...serve.access import Hosts, json_body
from ..transcript_export import ExportFormat, export_conversation
from .chat_view import Media
from .chats import Chats, FeedOptions, OneChat, OpenChat
from .feed import KEEP_ALIVE, LOG_LIMIT
from .form_files import IMAGE_TYPES, MAX_BYTES, MAX_FILES, AttachedFile, ChatFiles, message_part, uploaded_files
from .model_picker import ModelPicker
from .security import ASSETS, Guard

PAGE: Final = Path(__file__).with_name("page")

_EXPORTS: Final[Mapping[ExportFormat, tuple[str, str]]] = {
    "markdown": (".md", "text/markdown"),
    "json": (".json", "application/json"),
    "html": (".html", "text/html"),
}
"""The suffix and the media type of each format of a download."""

_MAX_ROWS: Final = 200
_LONGEST_TITLE: Final = 1000


def make_app(
    chats: AsyncChatMachine | Chats,
    *,
    token: str,
    host: str = "127.0.0.1",
    models: Sequence[str] = (),
    picker: ModelPicker | None = None,
    log_limit: int = LOG_LIMIT,
    keep_alive: float = KEEP_ALIVE,
) -> Starlette:
    """Return the ASGI application that shows chats in a page to users with the `token`.

    `app.state.chats.close_streams()` ends the streams of all pages.

    Args:
        chats: The machine of the only chat, which is not stored, or the chats of `toolcast web`.
        token: The secret that requests must have.
        host: The address the server listens on, which requests may name besides those of the loopback interface.
        models: Names of models that the page suggests.
        picker: Lists and checks models, in place of `models`.
        log_limit: The size of the event log of the only chat in bytes, for readers that reconnect.
        keep_alive: Seconds without events of the only chat after which a comment is sent.
    """
    app = Starlette(
        routes=[
            Route("/", _page),
            Route("/chats", _list_chats, methods=["GET"]),
            Route("/chats", _create_chat, methods=["POST"]),
            Route("/chats/{id}", _rename_chat, methods=["PATCH"]),
            Route("/chats/{id}", _delete_chat, methods=["DELETE"]),
            Route("/chats/{id}/export", _export),
            Route("/chats/{id}/events", _events),
            Route("/chats/{id}/messages", _messages),
            Route("/chats/{id}/dispatch", _dispatch, methods=["POST"]),
            Route("/chats/{id}/files", _upload, methods=["POST"]),
            Route("/chats/{id}/files/{file}", _file, methods=["GET"]),
            Route("/chats/{id}/files/{file}", _remove_file, methods=["DELETE"]),
            Route("/models", _models),
            Route("/models/check", _check_model, methods=["POST"]),
            Route("/modes", _modes),
            Route("/diagram", _diagram),
            Mount(ASSETS.rstrip("/"), StaticFiles(directory=PAGE)),
        ],
        middleware=[Middleware(Guard, token, Hosts(host))],
        exception_handlers={HTTPException: _error_response},
    )
    if isinstance(chats, AsyncChatMachine):
        app.state.chats = OneChat(chats, FeedOptions(log_limit, keep_alive))
    else:
        app.state.chats = chats
    app.state.picker = picker or ModelPicker((*models, *(f"local:{name}" for name in WEIGHTS)))
    return app


Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def _reports_errors(endpoint: Endpoint) -> Endpoint:
    """Return `endpoint` with a status for the errors of chats."""

    @wraps(endpoint)
    async def reported(request: Request) -> Response:
        try:
            return await endpoint(request)
        except LookupError as error:
            raise HTTPException(404, str(error)) from None
        except (IllegalState, SessionLocked) as error:
            raise HTTPException(409, str(error)) from None
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        except ToolcastError as error:
            raise HTTPException(500, str(error)) from None

    return reported


def _chats(request: Request) -> Chats | OneChat:
    found: Chats | OneChat = request.app.state.chats
    return found


def _many_chats(request: Request) -> Chats:
    """Return the chats, of which there may be many."""
    chats = _chats(request)
    if isinstance(chats, OneChat):
        raise HTTPException(405, "this page has one chat, which cannot be replaced, renamed or deleted")
    return chats


def _number(request: Request, name: str, default: int) -> int:
    """Return a number in the query."""
    text = request.query_params.get(name, "")
    return int(text) if re.fullmatch("[0-9]{1,12}", text) else default


async def _body(request: Request, **fields: type) -> dict[str, Any]:
    """Return the JSON object in the body, which has these fields."""
    body = await json_body(request)
    if not isinstance(body, dict):
        raise HTTPException(400, "expected a JSON object")
    found = cast("dict[str, Any]", body)
    for name, kind in fields.items():
        if not isinstance(found.get(name), kind):
            raise HTTPException(400, f"expected a JSON object with {name!r}, a {kind.__name__}")
    return found


async def _page(request: Request) -> Response:
    return FileResponse(PAGE / "index.html", media_type="text/html")


@_reports_errors
async def _list_chats(request: Request) -> Response:
    chats, given = _chats(request), request.query_params
    limit = min(max(_number(request, "limit", 50), 1), _MAX_ROWS)
    rows, more = await chats.page(given.get("search", ""), given.get("before", ""), limit)
    limits = None if chats.files is None else {"files": MAX_FILES, "bytes": MAX_BYTES}
    listed = [row.to_dict() for row in rows]
    return JSONResponse({"chats": listed, "more": more, "single": chats.is_single, "limits": limits})


@_reports_errors
async def _create_chat(request: Request) -> Response:
    chats = _many_chats(request)
    await _body(request)
    return JSONResponse({"id": (await chats.create()).id})


@_reports_errors
async def _rename_chat(request: Request) -> Response:
    chats, body = _many_chats(request), await _body(request, title=str)
    await chats.rename(request.path_params["id"], body["title"][:_LONGEST_TITLE])
    return JSONResponse({})


@_reports_errors
async def _delete_chat(request: Request) -> Response:
    await _many_chats(request).delete(request.path_params["id"])
    return JSONResponse({})


@_reports_errors
async def _export(request: Request) -> Response:
    """Respond with the chat as a document to download."""
    format = cast("ExportFormat", request.query_params.get("format", "markdown"))
    if format not in _EXPORTS:
        raise HTTPException(400, f"format={format!r:.60}: expected one of: {', '.join(_EXPORTS)}")
    suffix, media_type = _EXPORTS[format]
    async with _chats(request).reading(request.path_params["id"]) as chat:
        context, title = chat.machine.context, chat.view.title
        about = {"title": title, "model": context.model or "", "session": chat.id}
        text = await to_thread.run_sync(lambda: export_conversation(context.messages, format, **about))
    headers = {"Content-Disposition": _attachment(f"{title or chat.id}{suffix}")}
    return Response(text.encode(errors="replace"), media_type=media_type, headers=headers)


@_reports_errors
async def _events(request: Request) -> Response:
    """Stream the chat's events. A browser that reconnects sends the last id in a header, the page in the query."""
    last = request.headers.get("last-event-id") or request.query_params.get("after")
    chats, id = _chats(request), request.path_params["id"]
    async with chats.reading(id):  # an error has a status only before the stream has begun
        pass

    async def stream() -> AsyncIterator[bytes]:
        async with chats.reading(id) as chat:
            async for events in chat.feed.read(last):
                yield events

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


@_reports_errors
async def _messages(request: Request) -> Response:
    """Respond with messages before those of the snapshot."""
    async with _chats(request).reading(request.path_params["id"]) as chat:
        end = _number(request, "before", len(chat.machine.context.messages))
        return JSONResponse(chat.view.messages(end, min(_number(request, "limit", 100), _MAX_ROWS)))


@_reports_errors
async def _dispatch(request: Request) -> Response:
    """Dispatch an event to the chat, and respond with its effect."""
    body = await json_body(request)
    if not isinstance(body, dict):
        raise HTTPException(400, 'expected a JSON object with a type, such as {"type": "INTERRUPT"}')
    event = dict(cast("Mapping[str, Any]", body))
    chats = _chats(request)
    async with chats.writing(request.path_params["id"]) as chat:
        files = event.pop("files", None)
        if files:
            message = await to_thread.run_sync(_message_with_files, chats.files, chat, event.get("message"), files)
            event["message"] = message.to_dict()
        change = chat.machine.dispatch(event)
        return JSONResponse({"ignored": change is not None and change.ignored, "state": chat.machine.state})


def _message_with_files(files: ChatFiles | None, chat: OpenChat, message: object, ids: object) -> Message:
    """Return the message of a person with attached files, or with those of earlier messages.

    Raises:
        LookupError: There is no such file.
        ValueError: Anything is not as expected, or the model does not accept such a file.
    """
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in cast("list[object]", ids)):
        raise ValueError("files= is a list of ids")
    if len(cast("list[str]", ids)) > MAX_FILES:
        raise ValueError(f"a message can have at most {MAX_FILES} files")
    if not isinstance(message, str):
        raise ValueError("message= is a text")
    found = [_find_file(files, chat, id) for id in cast("list[str]", ids)]
    try:
        parts = [message_part(media.name or "file", *media[:2], chat.view.metadata) for media in found]
    except ToolcastError as error:
        raise ValueError(str(error)) from None
    return user(*([message] if message.strip() else []), *parts)


@_reports_errors
async def _upload(request: Request) -> Response:
    """Store the files of a form."""
    chats = _chats(request)
    files = chats.files
    if files is None:
        raise HTTPException(404, "this page does not take files")
    async with chats.writing(request.path_params["id"]) as chat:

        async def store(name: str, data: bytes) -> AttachedFile:
            return await to_thread.run_sync(files.add, chat.id, name, data)

        stored = await uploaded_files(request, store)
        return JSONResponse({"files": [file.to_dict() for file in stored]})


@_reports_errors
async def _file(request: Request) -> Response:
    """Respond with a file that was attached, or that is in a message. Only images are for display in the page."""
    chats, id = _chats(request), request.path_params["file"]
    async with chats.reading(request.path_params["id"]) as chat:
        media = await to_thread.run_sync(_find_file, chats.files, chat, id)
    if media.media_type in IMAGE_TYPES:
        return Response(media.data, media_type=media.media_type)
    headers = {"Content-Disposition": _attachment(media.name or "file")}
    return Response(media.data, media_type="application/octet-stream", headers=headers)


def _find_file(files: ChatFiles | None, chat: OpenChat, id: str) -> Media:
    """Return a file that is in a message, or that was attached. Raises `LookupError` if there is none."""
    if media := chat.view.media.get(id):
        return media
    if files is None:
        raise LookupError(f"no file {id!r:.60}")
    file, data = files.read(chat.id, id)
    return Media(file.media_type, data, file.name)


def _attachment(name: str) -> str:
    """Return the header of a download, RFC 6266, with a name of harmless characters."""
    return f'attachment; filename="{re.sub("[^A-Za-z0-9._ -]", "_", name)[:100]}"'


@_reports_errors
async def _remove_file(request: Request) -> Response:
    chats = _chats(request)
    if chats.files is None:
        raise LookupError("this page does not take files")
    async with chats.writing(request.path_params["id"]) as chat:
        await to_thread.run_sync(chats.files.remove, chat.id, request.path_params["file"])
    return JSONResponse({})


async def _models(request: Request) -> Response:
    """Respond with the models that providers have."""
    picker: ModelPicker = request.app.state.picker
    return JSONResponse(await to_thread.run_sync(picker.listed))


async def _check_model(request: Request) -> Response:
    """Respond with whether the provider has a model."""
    body = await _body(request, model=str)
    picker: ModelPicker = request.app.state.picker
    error = await to_thread.run_sync(partial(picker.problem, body["model"]))
    return JSONResponse({"ok": error is None, "error": error})


async def _modes(request: Request) -> Response:
    """Respond with the modes that can be selected."""
    modes = [{"name": mode.name, "description": mode.summary} for mode in _chats(request).modes]
    return JSONResponse({"modes": modes})


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
