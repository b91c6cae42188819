"""`MCPConnection`: a connection to an MCP server, in a thread with an event loop of its own.

The `mcp` package is async, and requires that the task which opens a connection closes it. So the main task of a thread
opens the connection, keeps it open and closes it, and a call is another task in that thread, submitted from any other:
the same for sync code, under asyncio, under trio, and inside a running event loop.

Every wait ends. Starting and closing have time limits; and whatever ends a connection, a server that exits as well as
`end`, first refuses further calls, under the lock that admits them. So every admitted call gets a result or an error.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from contextvars import Context
from functools import partial
from math import inf
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO, TypeAlias, TypeVar, cast

from pydantic import ValidationError

from ...async_support.waiters import Waiters
from ...errors import MCPError, ToolcastError
from ...text.json_text import replace_surrogates
from ...transport.transport_errors import chain, guard_logs, in_flight, scrub_exception
from ...values.credentials import Secret, SecretURL, mask, protect_headers, reveal
from ...values.secret_patterns import is_secret
from .mcp_tools import legal_result, single_line

if TYPE_CHECKING:
    from anyio import CancelScope
    from mcp import Client

T = TypeVar("T")

ClientCall: TypeAlias = "Callable[[Client], Coroutine[Any, Any, T]]"
ClientTransport: TypeAlias = AbstractAsyncContextManager[Any]
"""The `mcp` package's transport: a context manager for the streams to read from and to write to."""

GRACE: Final = 5.0
"""Seconds that closing may take."""

logger: Final = logging.getLogger("toolcast")

_SHOWN = 1000
_PIPE_SIZE = 1 << 16
# Error texts of the package, for a connection that has ended (an HTTP server was restarted, a program has exited), and
# for a lost response to one request. Their codes are those of ordinary errors too.
_CONNECTION_LOST_TEXTS = ("Session terminated", "Connection closed")
_ANSWER_LOST = "SSE stream "
_OUTCOME_UNKNOWN = "which may have been carried out, or not"


_LOGGERS: Final = ("mcp.client.streamable_http", "mcp.client.client", "mcp.shared.jsonrpc_dispatcher", "client")

# Errors are raised here. The package's log, with a traceback for each line that is no JSON, is opt-in.
for _logger in ("mcp", "client"):
    logging.getLogger(_logger).addHandler(logging.NullHandler())


class SecretMask(NamedTuple):
    """Secrets that no text may contain."""

    secrets: tuple[Secret, ...] = ()

    def mask(self, text: str) -> str:
        """Return `text` without the secrets."""
        return mask(text, self.secrets)


class StandardError:
    """The end of what a program writes to its standard error, read from a pipe by a thread."""

    def __init__(self) -> None:
        self._text = b""
        self._reader: Thread | None = None

    def open(self) -> TextIO:
        """Return a file for a program that is started now."""
        reading, writing = os.pipe()
        self._text = b""
        self._reader = Thread(target=self._read, args=(reading,), name="stderr of an MCP server", daemon=True)
        self._reader.start()
        return os.fdopen(writing, "w")

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            while part := pipe.read(_PIPE_SIZE):
                self._text = (self._text + part)[-_PIPE_SIZE:]

    def last_line(self) -> str:
        """Return the last line of a program that has ended, if possible one that names an error. It may block."""
        if self._reader is not None:
            self._reader.join(0.5)  # a child of the program may still hold the pipe
        lines = [line for line in self._text.decode(errors="replace").splitlines() if line.strip()]
        return next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "")


class ConnectOptions(NamedTuple):
    """The transport to a server, the advice for when it cannot be reached, its secrets, and a program's last line."""

    transport: Callable[[], ClientTransport]
    advice: str
    guarded: SecretMask = SecretMask()
    last_line: Callable[[], str] = str


def stdio_options(
    command: str,
    args: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str | Path | None,
    stderr: TextIO | None,
) -> ConnectOptions:
    """Return the options for a program that speaks MCP over its standard input and output."""
    given = {name: Secret(value) for name, value in (env or {}).items()}
    secrets = tuple(value for name, value in given.items() if is_secret(name, value.reveal()))
    errors = StandardError()

    @asynccontextmanager
    async def transport() -> AsyncGenerator[Any]:
        from mcp import StdioServerParameters, stdio_client

        program = StdioServerParameters(
            command=command, args=[*args], env={name: value.reveal() for name, value in given.items()}, cwd=cwd
        )
        with errors.open() if stderr is None else nullcontext(stderr) as file:
            async with stdio_client(program, file) as streams:
                if stderr is None:
                    file.close()  # so that the pipe ends with the program
                yield streams

    advice = "Does its command run in a terminal? stderr=sys.stderr shows its messages"
    return ConnectOptions(transport, advice, SecretMask(secrets), errors.last_line)


def http_options(url: str, headers: Mapping[str, str]) -> ConnectOptions:
    """Return the options for a server that speaks MCP over streamable HTTP."""
    address, named = SecretURL(url), protect_headers(headers)
    secrets = (address, *(value for value in named.values() if isinstance(value, Secret)))
    del url, headers  # no frame of a traceback may contain them

    @asynccontextmanager
    async def transport() -> AsyncGenerator[Any]:
        from httpx2 import AsyncClient, Timeout
        from mcp.client.streamable_http import streamable_http_client

        # A server may be silent for as long as a tool takes; that has its own limit.
        async with (
            AsyncClient(headers=_plain_headers(named), timeout=Timeout(30.0, read=None)) as client,
            streamable_http_client(address.reveal(), http_client=client) as streams,
        ):
            yield streams

    return ConnectOptions(transport, "Is it running, and is this its URL?", SecretMask(secrets))


def _plain_headers(headers: Mapping[str, str | Secret]) -> dict[str, str]:
    return {name: reveal(value) for name, value in headers.items()}


class MCPConnection:
    """A connection and its thread. It begins with its first call, and does not restart once it has ended."""

    def __init__(self, name: str, options: ConnectOptions, limit: float | None) -> None:
        self._name = name
        self._options = options
        self._limit = limit
        self._lock = Lock()
        self._over = False
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._client: asyncio.Future[Client] = self._loop.create_future()
        self._ending = asyncio.Event()
        self._deadline = inf  # of the start, or of closing
        self._scope: CancelScope | None = None  # with the deadline, from when the transport is open
        self._thread = Thread(target=Context().run, args=(self._run,), name=f"mcp {name}", daemon=True)

    def begin(self, ask: ClientCall[T]) -> Future[T]:
        """Start the thread; return the future of the first call, `ask(client)`."""
        first = self._schedule(ask)
        self._thread.start()
        return first

    def submit(self, ask: ClientCall[T]) -> Future[T] | None:
        """Return the future of `ask(client)`; None if the connection has ended. From any thread; does not block."""
        with self._lock:
            # After a fork the child has the object, but not the thread.
            if self._over or not self._thread.is_alive():
                return None
            return self._schedule(ask)

    def end(self) -> None:
        """Close the connection. From any thread; does not block."""
        with suppress(RuntimeError):  # the event loop is closed: the connection had ended
            self._loop.call_soon_threadsafe(self._end)

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    @property
    def ended(self) -> bool:
        """True if the thread has ended."""
        return not self._thread.is_alive()

    def _schedule(self, ask: ClientCall[T]) -> Future[T]:
        # Without the caller's context variables, by which sniffio may detect trio.
        return Context().run(asyncio.run_coroutine_threadsafe, self._call(ask), self._loop)

    # The methods below run in the thread.

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        """Open the connection, keep it open until it is ended, close it, and finish the calls in progress."""
        import anyio

        error: Exception = TimeoutError("no answer")
        guard_logs(*_LOGGERS)
        in_flight.set(self._options.guarded)
        self._deadline = inf if self._limit is None else self._loop.time() + self._limit
        with anyio.CancelScope() as scope:
            try:
                if not self._closed:
                    await self._serve(scope)
            except Exception as caught:  # the mcp package: its failure is the error of all waiters
                error = caught
        self._refuse()
        if not self._client.done():
            self._client.set_exception(self._start_error(error, await self._last_line()))
            self._client.exception()  # retrieved, so that asyncio does not log it
        await asyncio.sleep(0)  # lets the task admitted last begin
        if calls := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(calls, timeout=GRACE)

    async def _serve(self, scope: CancelScope) -> None:
        from mcp import Client

        async with Client(self._transport(scope), cache=None) as client:
            self._set_deadline(inf)
            self._client.set_result(client)
            await self._ending.wait()
            self._limit_closing()

    @asynccontextmanager
    async def _transport(self, scope: CancelScope) -> AsyncGenerator[Any]:
        async with self._options.transport() as (read, write):
            # Only now can it be cancelled: while asyncio starts a process, that would leave a zombie.
            self._scope = scope
            self._set_deadline(self._deadline)
            yield _FilteredStream(read, self._filter_message, self._refuse), write

    def _filter_message(self, message: Any) -> Any:
        """Return `message`, repaired if the package could not parse it.

        Tools for which the package would reject the whole list are removed, and what it would reject in the result of
        a call becomes text.
        """
        if isinstance(message, ValidationError):
            message = self._repair_message(message)
        response = getattr(message, "message", None)
        found: object = getattr(response, "result", None)
        if not self._client.done() or not isinstance(found, dict):
            return message
        result = cast("dict[str, Any]", found)
        version = self._client.result().protocol_version
        if isinstance(result.get("tools"), list):
            tools = [_without_output_schema(tool) for tool in result["tools"]]
            result["tools"] = [tool for tool in tools if self._is_valid(tool, result, version)]
        elif result.get("resultType", "complete") == "complete":
            cast("Any", response).result = legal_result(result, partial(_is_legal_result, version))
        return message

    def _repair_message(self, problem: ValidationError) -> Any:
        """Return the message that the package could not parse, or an error response in its place.

        Otherwise the request would wait for its response until it times out.
        """
        from mcp.shared.message import SessionMessage
        from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

        data = _unreadable_response(problem)
        logger.warning("the MCP server %s sent a message that cannot be read: %s", self._name, _error_summary(problem))
        if data is None:
            return problem
        if self._client.done() and not isinstance(data.get("result", {}), dict):
            data["result"] = {"content": data["result"]}  # made legal by the caller
        try:
            return SessionMessage(
                jsonrpc_message_adapter.validate_json(
                    replace_surrogates(json.dumps(data, ensure_ascii=False)), by_name=False
                )
            )
        except ValidationError:
            error = ErrorData(code=INTERNAL_ERROR, message=f"its answer cannot be read: {_error_summary(problem)}")
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=data["id"], error=error))

    def _is_valid(self, tool: Any, result: dict[str, Any], version: str) -> bool:
        problem = _tool_problem(tool, result, version)
        if problem is not None:
            name = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else tool
            logger.warning("the MCP server %s: left out the tool %.50r: %s", self._name, name, problem)
        return problem is None

    async def _call(self, ask: ClientCall[T]) -> T:
        client = await asyncio.shield(self._client)
        try:
            return await ask(client)
        except ToolcastError:
            raise
        except Exception as error:  # the mcp package: its error becomes an MCPError of the call
            self._scrub(error)
            lost = self._error_text(error) in _CONNECTION_LOST_TEXTS
            raise self._call_error(error, await self._last_line() if lost else "") from error

    def _end(self) -> None:
        self._closed = True
        self._refuse()
        self._limit_closing()

    def _refuse(self) -> None:
        """Admit no more calls."""
        with self._lock:
            self._over = True
        self._ending.set()

    def _limit_closing(self) -> None:
        """Limit the time that is left: a start is cancelled, closing has its grace period."""
        self._set_deadline(self._loop.time() + (GRACE if self._client.done() else 0.0))

    def _set_deadline(self, deadline: float) -> None:
        self._deadline = deadline
        if self._scope is not None:
            self._scope.deadline = deadline

    async def _last_line(self) -> str:
        """Return what the error of a program that has ended is to say about its standard error."""
        line = await asyncio.to_thread(self._options.last_line)
        return f", after it wrote {self._error_text(Exception(line))!r} to its standard error" if line else ""

    def _start_error(self, error: Exception, last_line: str) -> Exception:
        """Return the error for a connection that could not be opened."""
        name, advice = self._name, self._options.advice
        failure: Exception
        if isinstance(error, ImportError):
            failure = ImportError("MCP servers need mcp: pip install 'toolcast[mcp]'", name="mcp")
        elif self._closed:
            failure = MCPError(f"the MCP server {name} was closed before it had started")
        elif self._scope is not None and self._scope.cancel_called:
            hint = f"start(timeout=...) waits longer than {self._limit} s"
            failure = MCPError(f"the MCP server {name} did not start in time; {hint}. {advice}")
        else:
            failure = MCPError(
                f"the MCP server {name} could not be started: {self._error_text(error)}{last_line}. {advice}"
            )
        self._scrub(error)
        failure.__cause__ = error
        return failure

    def _call_error(self, error: Exception, last_line: str) -> MCPError:
        """Return the error for a call that failed in the server or on the way to it."""
        text = self._error_text(error)
        if text in _CONNECTION_LOST_TEXTS:
            self._refuse()
        if self._closed:
            return MCPError(f"the MCP server {self._name} was closed during the call, {_OUTCOME_UNKNOWN}")
        if self._over:
            lost = f"the connection to the MCP server {self._name} was lost during the call ({text}{last_line})"
            return MCPError(f"{lost}, {_OUTCOME_UNKNOWN}. The next call connects anew")
        if text.startswith(_ANSWER_LOST):
            return MCPError(
                f"the answer of the MCP server {self._name} to the call was lost ({text}), {_OUTCOME_UNKNOWN}"
            )
        return MCPError(f"the MCP server {self._name} answered with an error: {text}")

    def _scrub(self, error: Exception) -> None:
        """Remove secrets from `error` and its causes, including error data from the server."""
        guarded = self._options.guarded
        scrub_exception(error, guarded, None)
        for cause in chain(error):
            data: Any = getattr(cause, "error", None)
            if isinstance(message := getattr(data, "message", None), str):
                data.message, data.data = guarded.mask(message), None

    def _error_text(self, error: BaseException) -> str:
        """Return the message of an error, shortened; of an exception group, that of its first."""
        while isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        text = self._options.guarded.mask(str(error))
        return single_line(text[: 2 * _SHOWN])[:_SHOWN] or type(error).__name__


class _FilteredStream:
    """A stream of messages, each passed through `seen`; `gone` is called at its end."""

    def __init__(self, stream: Any, seen: Callable[[Any], Any], gone: Callable[[], None]) -> None:
        self._stream = stream
        self._seen = seen
        self._gone = gone

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> _FilteredStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return self._seen(await self._stream.__anext__())
        except StopAsyncIteration:
            self._gone()
            raise

    async def __aenter__(self) -> _FilteredStream:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stream.aclose()


def wait_blocking(future: Future[T], cancel: Callable[[], object] | None = None) -> T:
    """Wait in this thread for `future` and return its result. If interrupted, call `cancel`."""
    waiters = Waiters()
    future.add_done_callback(lambda _: waiters.wake())
    try:
        waiters.block(future.done)  # which Ctrl-C always interrupts
        return future.result()
    except CancelledError:
        raise MCPError("the call was cancelled, or its MCP server was closed") from None
    finally:
        (cancel or future.cancel)()


async def wait_async(future: Future[T]) -> T:
    """Wait in this task for `future` and return its result. If cancelled, cancel the call."""
    waiters = Waiters()
    future.add_done_callback(lambda _: waiters.wake())
    try:
        await waiters.suspend(future.done)
    finally:
        future.cancel()
    return wait_blocking(future)


def _without_output_schema(tool: Any) -> Any:
    """Return `tool` without the schema of its results, for which the package would withhold those that do not fit."""
    if not isinstance(tool, dict):
        return tool
    return {key: value for key, value in cast("dict[str, Any]", tool).items() if key != "outputSchema"}


def _is_legal_result(version: str, result: dict[str, Any]) -> bool:
    from mcp_types.methods import validate_server_result

    if not isinstance(result.get("isError", False), bool):  # which that does not look at
        return False
    try:
        validate_server_result("tools/call", version, result)
    except ValidationError:
        return False
    return True


def _tool_problem(tool: Any, result: dict[str, Any], version: str) -> str | None:
    """Return why the package rejects `tool`, one of those in `result`; None if it does not."""
    from mcp_types.methods import validate_server_result

    try:
        validate_server_result("tools/list", version, {**result, "tools": [tool]})
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_input=False):
            if problem["loc"][0] == "tools":
                return single_line(f"{'.'.join(map(str, problem['loc'][2:]))}: {problem['msg']}")
    return None


def _unreadable_response(problem: ValidationError) -> dict[str, Any] | None:
    """Return the JSON object that could not be validated, if it answers a request."""
    data: Any = problem.errors(include_url=False)[0]["input"]
    if isinstance(data, (str, bytes)):
        try:
            data = json.loads(data)
        except ValueError:
            return None
    answers = isinstance(data, dict) and type(cast("dict[str, Any]", data).get("id")) in (int, str)
    return cast("dict[str, Any]", data) if answers else None


def _error_summary(problem: ValidationError) -> str:
    first = problem.errors(include_url=False, include_input=False)[0]
    return single_line(first["msg"])[:_SHOWN] if first["type"] == "json_invalid" else "it is no JSON-RPC message"
