"""`ServedRun`: a run whose events are encoded for one client. `EngineRun` and `ObjectRun` end with their client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from secrets import token_hex
from typing import Any, Final, Protocol

import anyio

from ..agents.engine.engine import Engine
from ..events import (
    AgentEvent,
    ErrorEvent,
    Failover,
    RawEvent,
    Restarted,
    Routing,
    ToolResult,
)
from ..messages import Message
from ..structured.object_streams import AsyncObjectStream
from ..structured.orchestrator import ToolOrchestratingLLM
from ..tools.tool_context import ToolContext
from ..values.approvals import PermissionRequest
from ..values.turn import Turn
from .protocol import FrontEndProtocol, PatchProtocol, RequestError, ResponseEncoder, RunInput
from .public_errors import public_error
from .user_limits import RequestRefused, RunSlot

_INTERNAL: Final = (ErrorEvent, Failover, RawEvent, Routing)
"""Events that the client does not get: the service's own data, and errors with its texts."""

TOOL_ERROR: Final = "The tool call failed, or was not allowed."
"""The content of a tool result that is an error, as the client gets it: the model's text may have internals."""


class ServedRun(Protocol):
    """A run that is read once: streamed, or whole. `release` is called at its end, also if it was never read."""

    name: str

    def messages(self) -> AsyncGenerator[list[str]]:
        """Yield the encoded messages as they arrive."""
        ...

    async def result(self) -> Turn[Any] | object:
        """Return the result of the run, or raise what ended it."""
        ...

    def release(self) -> None:
        """End the reading."""
        ...


class ServedTarget(Protocol):
    """The agent, sessions or structured call that are served."""

    async def begin(self, user: Any, run: RunInput, protocol: FrontEndProtocol, slot: RunSlot, deps: Any) -> ServedRun:
        """Return the run of a request. Raises `RequestRefused` or `RequestError` if it cannot begin."""
        ...


def visible(event: AgentEvent) -> AgentEvent | None:
    """Return an event as the client may see it; None for one that it does not get."""
    if isinstance(event, _INTERNAL):
        return None
    if isinstance(event, Restarted):
        return replace(event, reason="")
    if isinstance(event, ToolResult):
        return replace(event, content=TOOL_ERROR, output=None) if event.is_error else replace(event, output=None)
    return event


async def encoded(
    encoder: ResponseEncoder, events: AsyncIterator[Any], result: Callable[[], Awaitable[Any]]
) -> AsyncGenerator[list[str]]:
    """Yield the messages of a run: for each of its events, and for its result or its error."""
    yield encoder.begin()
    try:
        async for event in events:
            if messages := encoder.feed(event):
                yield messages
        last = encoder.end(await result())
    except Exception as error:  # the end of the run: the client gets it as a message
        last = encoder.fail(public_error(error))
    yield last


class EngineTarget:
    """An engine, of which each request gets a fork."""

    def __init__(self, engine: Engine[Any, Any]) -> None:
        self._engine = engine
        self._history = engine.history

    async def begin(self, user: Any, run: RunInput, protocol: FrontEndProtocol, slot: RunSlot, deps: Any) -> ServedRun:
        """Return the run of a request."""
        if run.decisions:
            raise RequestRefused(
                409, "no_approval_pending", "this agent stores no conversation, so that no call waits for a decision"
            )
        given = [each for each in run.messages if each.role in ("user", "assistant") and each.parts]
        if not given or given[-1].role != "user":
            raise RequestError("messages: expected a message of the user at the end")
        engine = self._engine.fork(context=ToolContext(spending=slot.spending), deps=deps)
        return EngineRun(engine, [*self._history, *given], run, protocol, slot)


class EngineRun:
    """A turn of an engine, which ends with its client."""

    def __init__(
        self,
        engine: Engine[Any, Any],
        messages: list[Message],
        run: RunInput,
        protocol: FrontEndProtocol,
        slot: RunSlot,
    ) -> None:
        self.name: str = token_hex(8)
        self._stream = engine.astream(messages)
        self._run = run
        self._protocol = protocol
        self._slot = slot

    async def messages(self) -> AsyncGenerator[list[str]]:
        """Yield the encoded messages. Closing the generator cancels the turn."""
        async with self._stream:
            encoder = self._protocol.encoder(self._run)
            async with (
                aclosing(self._events()) as events,
                aclosing(encoded(encoder, events, self.result)) as encoding,
            ):
                async for messages in encoding:
                    yield messages

    async def _events(self) -> AsyncGenerator[AgentEvent]:
        async for event in self._stream:
            shown = visible(event)
            if shown is not None and not isinstance(shown, PermissionRequest):  # a decision could not arrive
                yield shown

    async def result(self) -> Turn[Any]:
        """Return the turn. Raises `RequestRefused` if it waits for an approval, which no later request can give."""
        async with self._stream:
            turn = await self._stream.result()
        if turn.pending:
            tools = ", ".join([request.tool for request in turn.pending])
            raise RequestRefused(
                501,
                "approval_not_supported",
                f"the call of {tools} waits for an approval, which needs a session: "
                "pass a session_factory to toolcast.serve.app in place of an engine",
            )
        return turn

    def release(self) -> None:
        """End the run."""
        self._slot.release()


class ObjectTarget:
    """A structured call, whose variables are in the request."""

    def __init__(self, orchestrator: ToolOrchestratingLLM[Any]) -> None:
        self._orchestrator = orchestrator

    async def begin(self, user: Any, run: RunInput, protocol: FrontEndProtocol, slot: RunSlot, deps: Any) -> ServedRun:
        """Return the run of a request."""
        stream = self._orchestrator.astream(**self._values(run))
        return ObjectRun(stream, run, protocol, slot)

    def _values(self, run: RunInput) -> dict[str, Any]:
        names = self._orchestrator.prompt.variables
        values = run.values
        if values is None and len(names) == 1 and run.messages and run.messages[-1].role == "user":
            values = {names[0]: run.messages[-1].text}
        if values is None or set(values) != set(names):
            expected = ", ".join(names) or "none"
            raise RequestError(f"values: expected a value for each variable of the prompt: {expected}")
        for name, value in values.items():
            # Not objects and lists: alone in a prompt they are messages, and those of the system are not the client's.
            if not isinstance(value, (str, int, float)):
                raise RequestError(f"values.{name}: expected a string or a number, got {type(value).__name__}")
        return {**values}


class ObjectRun:
    """A structured call, which ends with its client."""

    def __init__(
        self, stream: AsyncObjectStream[Any], run: RunInput, protocol: FrontEndProtocol, slot: RunSlot
    ) -> None:
        self.name: str = token_hex(8)
        self._stream = stream
        self._run = run
        self._protocol = protocol
        self._slot = slot
        self._began = anyio.current_time()
        if slot.spending is not None:
            slot.spending.begin(self._began)

    async def messages(self) -> AsyncGenerator[list[str]]:
        """Yield the encoded messages. Closing the generator cancels the call."""
        protocol = self._protocol
        async with self._stream:
            encoder = protocol.encoder(self._run)
            async with aclosing(encoded(encoder, self._changes(), self._stream.final)) as encoding:
                async for messages in encoding:
                    yield messages

    def _changes(self) -> AsyncIterator[Any]:
        protocol = self._protocol
        if isinstance(protocol, PatchProtocol) and protocol.change_format(self._run) == "json-patch":
            return self._stream.changes("json-patch")
        return self._stream.changes()

    async def result(self) -> object:
        """Return the object."""
        async with self._stream:
            return await self._stream.final()

    def release(self) -> None:
        """End the run, and count what it spent."""
        self._slot.charge(self._stream.usage)
        if self._slot.spending is not None:
            self._slot.spending.end(anyio.current_time())
        self._slot.release()
