"""One connection to an MCP server, held open by a thread with an event loop of its own.

The `mcp` package is async, and wants what a task has opened to be closed by that task. So a `MCPConnection` is a thread
whose main task opens the connection, keeps it and closes it, and a call is a task beside that one, begun from any
thread: the same for sync code, under asyncio, under trio, and inside a running loop.

Nobody waits for ever. A start has a limit and a close has one; and what ends a link, a server that dies as well as
`end`, first refuses further work, under the lock that lets work in. So what was let in is always answered: by its
result, or by what became of the link.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import Context
from math import inf
from pathlib import Path
from re import compile as regex
from subprocess import DEVNULL
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO, TypeAlias, TypeVar, cast

from pydantic import ValidationError

from ...async_support.waiters import Waiters
from ...credentials import Secret, SecretURL, mask, protect_headers, reveal
from ...errors import MCPError, ToolcastError
from ...json_text import replace_surrogates
from ...transport.transport_errors import chain, guard_logs, in_flight, scrub_exception
from .tools import in_a_line

if TYPE_CHECKING:
    from anyio import CancelScope
    from mcp import Client

T = TypeVar("T")

Ask: TypeAlias = "Callable[[Client], Coroutine[Any, Any, T]]"
Transport: TypeAlias = AbstractAsyncContextManager[Any]
"""What the `mcp` package calls so: its value is the stream that is read from and the one that is written to."""

GRACE: Final = 5.0
"""Seconds that closing may take."""

logger: Final = logging.getLogger("toolcast")

_SHOWN = 1000
# What the package says where an HTTP server that was started anew knows nothing of the session, or a program is gone,
# and where only the answer to one request is lost. Their codes are those of ordinary errors too.
_LOST = ("Session terminated", "Connection closed")
_ANSWER_LOST = "SSE stream "
_UNKNOWN = "which may have been carried out, or not"


_SECRET_NAME: Final = regex("(?i)key|token|secret|passw|auth|credential|cookie|url|dsn")
_LOGGERS: Final = ("mcp.client.streamable_http", "mcp.client.client", "mcp.shared.jsonrpc_dispatcher", "client")

# What goes wrong is raised here. Its log, with a traceback for each line that is no JSON, is for those who ask for it.
for _logger in ("mcp", "client"):
    logging.getLogger(_logger).addHandler(logging.NullHandler())


class Guarded(NamedTuple):
    """Secrets that no text may contain."""

    secrets: tuple[Secret, ...] = ()

    def mask(self, text: str) -> str:
        """`text` without the secrets."""
        return mask(text, self.secrets)


class ConnectOptions(NamedTuple):
    """The address of a server, the advice for when it cannot be reached, and its secrets."""

    transport: Callable[[], Transport]
    advice: str
    guarded: Guarded = Guarded()


def over_stdio(
    command: str,
    args: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str | Path | None,
    stderr: TextIO | None,
) -> ConnectOptions:
    """What starts a program and talks with it over its standard input and output."""

    given = {name: Secret(value) for name, value in (env or {}).items()}
    secrets = tuple(value for name, value in given.items() if _SECRET_NAME.search(name))

    @asynccontextmanager
    async def opening() -> AsyncGenerator[Any]:
        from mcp import StdioServerParameters, stdio_client

        program = StdioServerParameters(
            command=command, args=[*args], env={name: value.reveal() for name, value in given.items()}, cwd=cwd
        )
        # What is given here reaches subprocess.Popen, which takes this number as well as a file.
        async with stdio_client(program, stderr or cast("Any", DEVNULL)) as streams:
            yield streams

    return ConnectOptions(
        opening, "Does its command run in a terminal? stderr=sys.stderr shows what it says", Guarded(secrets)
    )


def over_http(url: str, headers: Mapping[str, str]) -> ConnectOptions:
    """What talks with a server over streamable HTTP."""

    address, named = SecretURL(url), protect_headers(headers)
    secrets = (address, *(value for value in named.values() if isinstance(value, Secret)))
    del url, headers  # no frame of a traceback may hold them

    @asynccontextmanager
    async def opening() -> AsyncGenerator[Any]:
        from httpx2 import AsyncClient, Timeout
        from mcp.client.streamable_http import streamable_http_client

        # A server may be silent for as long as a tool takes; that has its own limit.
        async with (
            AsyncClient(headers=_revealed(named), timeout=Timeout(30.0, read=None)) as client,
            streamable_http_client(address.reveal(), http_client=client) as streams,
        ):
            yield streams

    return ConnectOptions(opening, "Is it running, and is this its URL?", Guarded(secrets))


def _revealed(headers: Mapping[str, str | Secret]) -> dict[str, str]:
    return {name: reveal(value) for name, value in headers.items()}


class MCPConnection:
    """A connection and its thread. It begins with the first thing that is asked for, and is over once it ends."""

    def __init__(self, name: str, opening: ConnectOptions, limit: float | None) -> None:
        self._name = name
        self._opening = opening
        self._limit = limit
        self._lock = Lock()
        self._over = False
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._client: asyncio.Future[Client] = self._loop.create_future()
        self._ending = asyncio.Event()
        self._scope: CancelScope | None = None
        self._thread = Thread(target=Context().run, args=(self._run,), name=f"mcp {name}", daemon=True)

    def begin(self, ask: Ask[T]) -> Future[T]:
        """What becomes of `ask(client)`, the first thing that is asked for."""
        first = self._let_in(ask)
        self._thread.start()
        return first

    def submit(self, ask: Ask[T]) -> Future[T] | None:
        """What becomes of `ask(client)`; None where the link is over. From any thread, and without waiting."""
        with self._lock:
            # After a fork the child has the object, but not the thread.
            if self._over or not self._thread.is_alive():
                return None
            return self._let_in(ask)

    def end(self) -> None:
        """Have the connection closed. From any thread, and without waiting."""
        with suppress(RuntimeError):  # the loop is closed: it was over
            self._loop.call_soon_threadsafe(self._end)

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    @property
    def ended(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    def _let_in(self, ask: Ask[T]) -> Future[T]:
        # Without the caller's context variables, one of which may say that this is trio.
        return Context().run(asyncio.run_coroutine_threadsafe, self._asked(ask), self._loop)

    # What follows runs in the thread.

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._hold())

    async def _hold(self) -> None:
        """Open the connection, keep it until something ends it, close it, and answer what is still open."""
        import anyio

        error: Exception = TimeoutError("no answer")
        guard_logs(*_LOGGERS)
        in_flight.set(self._opening.guarded)
        limit = 0.0 if self._closed else self._limit
        with anyio.move_on_after(limit) as self._scope:
            try:
                await self._keep()
            except Exception as caught:  # the mcp package: its failure is the error of all waiters
                error = caught
        self._refuse()
        if not self._client.done():
            self._client.set_exception(self._not_started(error))
            self._client.exception()  # there may be nobody any more who wants to know
        await asyncio.sleep(0)  # what was let in last has not begun yet
        if asked := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(asked, timeout=GRACE)

    async def _keep(self) -> None:
        from mcp import Client

        async with Client(self._transport(), cache=None) as client:
            assert self._scope is not None
            self._scope.deadline = inf
            self._client.set_result(client)
            await self._ending.wait()
            self._hurry()

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[Any]:
        async with self._opening.transport() as (read, write):
            yield _Watched(read, self._weeded, self._refuse), write

    def _weeded(self, message: Any) -> Any:
        """Return `message`, made readable where the package could not read it.

        A list of tools is without those for which the package would refuse them all.
        """
        if isinstance(message, ValidationError):
            return self._reread(message)
        result: Any = getattr(getattr(message, "message", None), "result", None) or {}
        if self._client.done() and isinstance(result.get("tools"), list):
            version = self._client.result().protocol_version
            result["tools"] = [tool for tool in result["tools"] if self._is_sound(tool, result, version)]
        return message

    def _reread(self, fault: ValidationError) -> Any:
        """Return the message that the package could not read, or an error in place of the answer that it was.

        Otherwise the request would wait for its answer until its time is up.
        """
        from mcp.shared.message import SessionMessage
        from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

        data = _data_of(fault)
        logger.warning("the MCP server %s sent a message that cannot be read: %s", self._name, _first_words(fault))
        if data is None:
            return fault
        try:
            return SessionMessage(
                jsonrpc_message_adapter.validate_json(
                    replace_surrogates(json.dumps(data, ensure_ascii=False)), by_name=False
                )
            )
        except ValidationError:
            error = ErrorData(code=INTERNAL_ERROR, message=f"its answer cannot be read: {_first_words(fault)}")
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=data["id"], error=error))

    def _is_sound(self, tool: Any, result: dict[str, Any], version: str) -> bool:
        fault = _fault(tool, result, version)
        if fault is not None:
            name = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else tool
            logger.warning("the MCP server %s: left out the tool %.50r: %s", self._name, name, fault)
        return fault is None

    async def _asked(self, ask: Ask[T]) -> T:
        client = await asyncio.shield(self._client)
        try:
            return await ask(client)
        except ToolcastError:
            raise
        except Exception as error:  # the mcp package: what it raises becomes an MCPError of the call
            self._strip(error)
            raise self._failed(error) from error

    def _end(self) -> None:
        self._closed = True
        self._refuse()
        self._hurry()

    def _refuse(self) -> None:
        """Take no more work."""
        with self._lock:
            self._over = True
        self._ending.set()

    def _hurry(self) -> None:
        """Limit the time that is left: a start is broken off, a close has its grace."""
        if self._scope is not None:
            self._scope.deadline = self._loop.time() + (GRACE if self._client.done() else 0.0)

    def _not_started(self, error: Exception) -> Exception:
        """Why there is no connection."""
        name, advice = self._name, self._opening.advice
        failure: Exception
        if isinstance(error, ImportError):
            failure = ImportError("MCP servers need mcp: pip install 'toolcast[mcp]'", name="mcp")
        elif self._closed:
            failure = MCPError(f"the MCP server {name} was closed before it had started")
        elif self._scope is not None and self._scope.cancel_called:
            patience = f"start(timeout=...) waits longer than {self._limit} s"
            failure = MCPError(f"the MCP server {name} did not start in time; {patience}. {advice}")
        else:
            failure = MCPError(f"the MCP server {name} could not be started: {self._words(error)}. {advice}")
        self._strip(error)
        failure.__cause__ = error
        return failure

    def _failed(self, error: Exception) -> MCPError:
        """What to say of a request that the server, or the way to it, has failed."""
        words = self._words(error)
        if words in _LOST:
            self._refuse()
        if self._closed:
            return MCPError(f"the MCP server {self._name} was closed during the call, {_UNKNOWN}")
        if self._over:
            lost = f"the connection to the MCP server {self._name} was lost during the call ({words})"
            return MCPError(f"{lost}, {_UNKNOWN}. The next call connects anew")
        if words.startswith(_ANSWER_LOST):
            return MCPError(f"the answer of the MCP server {self._name} to the call was lost ({words}), {_UNKNOWN}")
        return MCPError(f"the MCP server {self._name} answered with an error: {words}")

    def _strip(self, error: Exception) -> None:
        """Take what is secret from `error` and all that led to it, also where it is an answer of the server."""
        guarded = self._opening.guarded
        scrub_exception(error, guarded, None)
        for link in chain(error):
            data: Any = getattr(link, "error", None)
            if isinstance(message := getattr(data, "message", None), str):
                data.message, data.data = guarded.mask(message), None

    def _words(self, error: BaseException) -> str:
        """Return what an error says, in short; of several at once, the first."""
        while isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        words = self._opening.guarded.mask(str(error))
        return in_a_line(words[: 2 * _SHOWN])[:_SHOWN] or type(error).__name__


class _Watched:
    """The stream read from, every message as `seen` gives it; it tells when the server has `gone`."""

    def __init__(self, stream: Any, seen: Callable[[Any], Any], gone: Callable[[], None]) -> None:
        self._stream = stream
        self._seen = seen
        self._gone = gone

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return self._seen(await self._stream.__anext__())
        except StopAsyncIteration:
            self._gone()
            raise

    async def __aenter__(self) -> _Watched:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stream.aclose()


def waited(future: Future[T], cancel: Callable[[], object] | None = None) -> T:
    """What `future` gives, waited for by this thread. Where the waiting is broken off, so is the work, by `cancel`."""
    waiters = Waiters()
    future.add_done_callback(lambda _: waiters.wake())
    try:
        waiters.block(future.done)  # which Ctrl-C breaks off for certain
        return future.result()
    except CancelledError:
        raise MCPError("the call was cancelled, or its MCP server was closed") from None
    finally:
        (cancel or future.cancel)()


async def awaited(future: Future[T]) -> T:
    """What `future` gives, waited for by this task. Where the waiting is broken off, so is the work."""
    waiters = Waiters()
    future.add_done_callback(lambda _: waiters.wake())
    try:
        await waiters.suspend(future.done)
    finally:
        future.cancel()
    return waited(future)


def _fault(tool: Any, result: dict[str, Any], version: str) -> str | None:
    """What the package has against `tool`, of those that `result` lists."""
    from mcp_types.methods import validate_server_result

    try:
        validate_server_result("tools/list", version, {**result, "tools": [tool]})
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_input=False):
            if fault["loc"][0] == "tools":
                return in_a_line(f"{'.'.join(map(str, fault['loc'][2:]))}: {fault['msg']}")
    return None


def _data_of(fault: ValidationError) -> dict[str, Any] | None:
    """Return the JSON object that could not be validated, if it answers a request."""
    data: Any = fault.errors(include_url=False)[0]["input"]
    if isinstance(data, (str, bytes)):
        try:
            data = json.loads(data)
        except ValueError:
            return None
    answers = isinstance(data, dict) and type(cast("dict[str, Any]", data).get("id")) in (int, str)
    return cast("dict[str, Any]", data) if answers else None


def _first_words(fault: ValidationError) -> str:
    first = fault.errors(include_url=False, include_input=False)[0]
    return in_a_line(first["msg"])[:_SHOWN] if first["type"] == "json_invalid" else "it is no JSON-RPC message"
