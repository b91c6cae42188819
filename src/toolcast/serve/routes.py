"""The routes of `toolcast.serve.app`.

POST {protocol's path}              begin a run: /ag-ui, and those of the other protocols
GET  {protocol's path}/{id}/stream  the events of the thread's run; 204 if there is none in progress
POST /objects                       the changes of a structured call, as data or JSON Patch
GET  /threads/{id}                  the state, and the calls that wait for a decision
GET  /threads/{id}/events           the events of the thread's run, after the one with the last event id
POST /threads/{id}/stop             stop the thread's run
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from typing import Any, Final, TypeAlias

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from typing_extensions import TypeIs

from ..agents.agent import Agent
from ..agents.engine.engine import Engine, as_engine
from ..async_support.callbacks import call_function
from ..structured.orchestrator import ToolOrchestratingLLM
from ..values.turn import Turn
from .access import Hosts, is_local, json_body
from .event_stream import EventStreamResponse, cancel_on_disconnect, parse_event_id
from .objects import ObjectProtocol
from .protocol import DocumentProtocol, FrontEndProtocol, PublicError, RequestError, RunInput
from .public_errors import public_error
from .serve_options import PROTOCOLS, ServeOptions, allow_all
from .served_runs import EngineTarget, ObjectTarget, ServedRun, ServedTarget
from .served_sessions import SessionReader, SessionTarget, no_thread
from .user_limits import RequestLimits, RequestRefused, UserLimits

_MODULES: Final = {
    "ag-ui": ("ag_ui", "AGUIProtocol"),
    "vercel": ("vercel", "VercelProtocol"),
    "openai": ("openai", "OpenAIProtocol"),
}

_THREAD_ID: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.:-]{0,127}")

ErrorBody: TypeAlias = Callable[[PublicError], Any]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def make_app(target: Any, options: ServeOptions) -> Starlette:
    """Return the ASGI app of `toolcast.serve.app`, whose arguments these are."""
    return _Server(target, options).app()


def chosen_protocols(chosen: Sequence[str | FrontEndProtocol]) -> list[FrontEndProtocol]:
    """Return the protocols with these names. Raises `ValueError` for an unknown one, and for two with one path."""
    if isinstance(chosen, str):
        raise TypeError(f"protocols={chosen!r}: expected a list, such as [{chosen!r}]")
    found: list[FrontEndProtocol] = []
    for each in chosen:
        if not isinstance(each, str):
            found.append(each)
        elif each in _MODULES:
            module, name = _MODULES[each]
            found.append(getattr(import_module(f".{module}", __package__), name)())
        else:
            raise ValueError(f"protocols: expected some of {', '.join(PROTOCOLS)}, got {each!r}")
    paths = [each.path for each in found]
    if repeated := next((path for path in paths if paths.count(path) > 1), None):
        raise ValueError(f"protocols: two of them have the path {repeated!r}")
    return found


class _Server:
    def __init__(self, target: Any, options: ServeOptions) -> None:
        self._authorize = options["authorize"]
        hosts = options.get("hosts", ())
        if isinstance(hosts, str):
            raise TypeError(f"hosts={hosts!r}: expected a list, such as [{hosts!r}]")
        self._hosts = Hosts(*hosts)
        self._deps = options.get("deps")
        self._limits = options.get("limits", RequestLimits())
        self._users = UserLimits(self._limits.concurrent_runs, options.get("budget"))
        self._keep_alive = options.get("keep_alive", 15.0)
        self._protocols = chosen_protocols(options.get("protocols", PROTOCOLS))
        self._sessions: SessionTarget | None = None
        if _is_agent(target):
            self._target: ServedTarget = EngineTarget(as_engine(target))
        elif _is_orchestrator(target):
            self._target = ObjectTarget(target)
            self._protocols.append(ObjectProtocol())
        else:
            self._target = self._sessions = SessionTarget(target, options.get("max_sessions", 1000))

    def app(self) -> Starlette:
        """Return the ASGI app."""
        routes: list[Route] = []
        for protocol in self._protocols:
            endpoint = partial(self._run, protocol)
            routes.append(Route(protocol.path, self._endpoint(endpoint, protocol.error_body), methods=["POST"]))
            if isinstance(protocol, DocumentProtocol):
                for path, document in protocol.documents.items():
                    shown = self._endpoint(partial(_document, document), protocol.error_body)
                    routes.append(Route(path, shown, methods=["GET"]))
        if self._sessions is not None:
            for protocol in self._protocols:
                endpoint = self._endpoint(partial(self._rejoin, self._sessions), protocol.error_body)
                routes.append(Route(f"{protocol.path}/{{id}}/stream", endpoint, methods=["GET"]))
            for path, method, thread in (
                ("/threads/{id}", "GET", self._status),
                ("/threads/{id}/events", "GET", self._events),
                ("/threads/{id}/stop", "POST", self._stop),
            ):
                routes.append(Route(path, self._endpoint(partial(thread, self._sessions)), methods=[method]))
        return Starlette(routes=routes, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncGenerator[None]:
        yield
        if self._sessions is not None:
            await self._sessions.aclose()

    def _endpoint(self, endpoint: Callable[[Request, Any], Awaitable[Response]], body: ErrorBody | None = None) -> Any:
        """Return an endpoint that calls another with the request and its user, and responds to errors."""
        error_body = body or _error_body

        async def served(request: Request) -> Response:
            try:
                return await endpoint(request, await self._user(request))
            except HTTPException as error:  # of the body, or of the application's `authorize`
                shown = PublicError(error.status_code, "invalid_request", error.detail)
                return JSONResponse(error_body(shown), error.status_code, headers=error.headers)
            except Exception as error:  # the client gets its public form
                shown = public_error(error)
                return JSONResponse(error_body(shown), shown.status)

        return served

    async def _user(self, request: Request) -> Any:
        """Return the user of a request, whose Host header and client are allowed."""
        host = request.headers.get("host", "")
        if len(request.headers.getlist("host")) > 1 or host not in self._hosts:
            raise RequestRefused(
                421,
                "unexpected_host",
                f"unexpected Host header {host!r:.100}: toolcast.serve.app(hosts=[...]) names it",
            )
        if self._authorize is allow_all and not is_local(request):
            raise RequestRefused(
                403,
                "not_local",
                "only clients on this machine are served: toolcast.serve.app(authorize=...) lets others",
            )
        try:
            user = await call_function(self._authorize, request, concurrent=True)
        except PermissionError:
            raise RequestRefused(403, "forbidden", "you may not do this") from None
        if user is None or user == "":
            raise RequestRefused(401, "unauthorized", "unknown user")
        if isinstance(user, bool):
            raise TypeError(f"authorize= returned {user}, expected the user of the request, such as an id, or None")
        return user

    async def _run(self, protocol: FrontEndProtocol, request: Request, user: Any) -> Response:
        """Begin a run, and respond with its events or with its result."""
        body = await json_body(request, self._limits.body_bytes)
        run = protocol.parse(body)
        if isinstance(protocol, ObjectProtocol):
            run = protocol.with_format(run, request.query_params.get("format", "data"))
        if run.thread_id and not _THREAD_ID.fullmatch(run.thread_id):
            raise RequestError("the id of the thread: expected up to 128 letters, digits and any of . _ : -")
        self._limits.check(run)
        slot = self._users.enter(user)
        try:
            deps = None if self._deps is None else await call_function(self._deps, user, concurrent=True)
            served = await self._target.begin(user, run, protocol, slot, deps)
        except BaseException:
            slot.release()
            raise
        if run.stream:
            headers = protocol.headers
            return EventStreamResponse(served, skip=0, headers=headers, keep_alive=self._keep_alive)
        return await _whole(protocol, run, served, request)

    async def _rejoin(self, sessions: SessionTarget, request: Request, user: Any) -> Response:
        """Respond with the events of the run in progress, from its first; 204 if there is none."""
        try:
            reader = sessions.find(user, request.path_params["id"]).reader()
        except RequestRefused:
            reader = None
        return Response(status_code=204) if reader is None or reader.run.job.done else self._stream(reader, 0)

    async def _events(self, sessions: SessionTarget, request: Request, user: Any) -> Response:
        """Respond with the events of the last run, after the one with the last event id."""
        thread_id = request.path_params["id"]
        reader = sessions.find(user, thread_id).reader()
        if reader is None:
            raise no_thread(thread_id)
        last = request.headers.get("last-event-id") or request.query_params.get("last_event_id", "")
        if not last:
            return self._stream(reader, 0)
        found = parse_event_id(last)
        if found is None:
            raise RequestError(f"the last event id: expected the id of an event, got {last!r:.60}")
        if found[0] != reader.name:
            raise RequestRefused(410, "events_gone", "a later run has begun: read its events without a last event id")
        return self._stream(reader, found[1])

    async def _status(self, sessions: SessionTarget, request: Request, user: Any) -> Response:
        """Respond with the state of a thread, and the calls that wait for a decision."""
        thread_id = _valid_id(request.path_params["id"])
        return JSONResponse((await sessions.look_up(user, thread_id)).status())

    async def _stop(self, sessions: SessionTarget, request: Request, user: Any) -> Response:
        """Stop the run of a thread, if one is in progress."""
        served = sessions.find(user, request.path_params["id"])
        served.stop()
        return JSONResponse(served.status())

    def _stream(self, reader: SessionReader, skip: int) -> Response:
        headers = reader.run.protocol.headers
        return EventStreamResponse(reader, skip=skip, headers=headers, keep_alive=self._keep_alive)


def _is_agent(target: object) -> TypeIs[Agent[Any, Any] | Engine[Any, Any]]:
    return isinstance(target, (Agent, Engine))


def _is_orchestrator(target: object) -> TypeIs[ToolOrchestratingLLM[Any]]:
    return isinstance(target, ToolOrchestratingLLM)


def _valid_id(thread_id: str) -> str:
    if not _THREAD_ID.fullmatch(thread_id):
        raise no_thread(thread_id)
    return thread_id


def _error_body(error: PublicError) -> Any:
    return {"error": {"code": error.code, "message": error.message}}


async def _document(document: Any, request: Request, user: Any) -> Response:
    return JSONResponse(document)


async def _whole(protocol: FrontEndProtocol, run: RunInput, served: ServedRun, request: Request) -> Response:
    """Respond with the result of a run as one JSON body. A client that disconnects cancels the waiting."""
    result: Turn[Any] | object = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_on_disconnect, request.receive, tasks.cancel_scope)
            try:
                result = protocol.whole(run, await served.result())
            except Exception as error:  # raised outside of the group, which would wrap it
                result = error
            tasks.cancel_scope.cancel()
    finally:
        served.release()
    if isinstance(result, Exception):
        raise result
    return JSONResponse(result)
