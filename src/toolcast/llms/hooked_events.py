"""`HookedEvents`: the events of one response, of which hooks are notified: the first content and the response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ..events import Event, Failover, Routing, UsageReport
from ..values.accumulator import Accumulator
from ..values.hooks import CallHooks, Hooks, RequestInfo
from .call_state import CallState, ResponseEvents
from .request import ChatRequest

PREAMBLE: Final = frozenset((UsageReport, Routing, Failover))
"""The events before the first content of a response."""


def request_info(request: ChatRequest) -> RequestInfo:
    """Return `request` as hooks get it, without an HTTP request."""
    return RequestInfo(
        request.messages,
        request.settings,
        request.tool_choice,
        request.mode,
        request.stream,
        request.tools,
        server_tools=request.server_tools,
    )


def add_hooks(
    events: ResponseEvents,
    own: tuple[Hooks, ...],
    call: CallState,
    now: Callable[[], float],
    origin: Callable[[], Mapping[str, Any]],
    *,
    stream: bool,
) -> ResponseEvents:
    """Return the events of an LLM that another LLM calls, for its `own` hooks that the call does not have already."""
    hooks = None if call.hooks is None else call.hooks.only(own)
    return events if hooks is None else HookedEvents(events, hooks, call, now, origin, stream=stream)


class HookedEvents:
    """The events of `source`, unchanged. There is one for a call with hooks, and none for other calls.

    Args:
        source: The events of the response.
        hooks: The hooks of the call.
        call: The call, which marks a response that is rejected before its end.
        stream: True for a streamed response, whose first content is reported.
        now: Returns the time in seconds.
        origin: Returns the provider and the model of the response.
    """

    def __init__(
        self,
        source: ResponseEvents,
        hooks: CallHooks,
        call: CallState,
        now: Callable[[], float],
        origin: Callable[[], Mapping[str, Any]],
        *,
        stream: bool,
    ) -> None:
        self._source = source
        self._hooks = hooks
        self._call = call
        self._now = now
        self._origin = origin
        self._waiting = stream  # for the first content
        self._accumulator = Accumulator()
        self._ended = False

    @property
    def request_id(self) -> str | None:
        """The service's id of the request."""
        return self._source.request_id

    async def next_events(self) -> list[Event]:
        """Return the next events, or an empty list at the end."""
        events = await self._source.next_events()
        if self._waiting and not PREAMBLE.issuperset(map(type, events)):
            self._waiting = False
            hooks = self._hooks.for_last_request()
            hooks.emit("first_token", self._now() - hooks.last_request.began)
        for event in events:
            self._accumulator.apply(event)
        if not events:
            self._end()
        return events

    def direct_reads(self, id: str) -> None:
        """Return None: the response that hooks get is made of events."""

    async def close(self) -> None:
        """Stop and release the connection. A response that is rejected before its end ends here."""
        if self._call.stopped_early:
            self._end()
        await self._source.close()

    def break_off(self) -> None:
        """Abort the `next_events` of another thread."""
        self._source.break_off()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            response = self._accumulator.response(request_id=self.request_id, **self._origin())
            hooks = self._hooks.for_last_request()
            hooks.emit("response", response, self._now() - hooks.last_request.began)
