"""`ResumedEvents`: the events of a response that the service pauses, continued by further requests.

A service that runs tools itself ends a response that takes long with the stop reason `pause_turn`. Sent back unchanged,
as the last message, it is continued. Its parts are one response for the caller: the events follow each other, the usage
is the sum, and `Finish` comes once. The requests share the deadline, the retries and the attempts of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ...events import Event, Finish, TextCitation, UsageReport
from ...messages import Message
from ...values.accumulator import Accumulator
from ...values.citations import shifted
from ...values.usage import NO_USAGE
from ..call_state import ResponseEvents
from ..request import ChatRequest

MOST_RESUMPTIONS: Final = 5
"""The most requests that continue one response. One that is still paused then ends with the stop reason `pause`."""

_PAUSED: Final = "pause_turn"


class ResumedEvents:
    """The events of one response, with those of the requests that continue it.

    Args:
        request: The request.
        open: Returns the events of the response to a request.
    """

    def __init__(self, request: ChatRequest, open: Callable[[ChatRequest], ResponseEvents]) -> None:
        self._request = request
        self._open = open
        self._source = open(request)
        self._accumulator = Accumulator()  # of the present request
        self._message = Message("assistant")  # of the requests before it
        self._before = NO_USAGE
        self._resumed = 0
        self._broken = False

    @property
    def request_id(self) -> str | None:
        """The service's id of the last request."""
        return self._source.request_id

    async def next_events(self) -> list[Event]:
        """Return the next events, or an empty list at the end."""
        while events := await self._source.next_events():
            self._accumulator.extend(events)
            pauses = isinstance(events[-1], Finish) and self._pauses(events[-1])
            # Before the resumption: these events count what is in the requests before their own.
            out = [self._summed(event) for event in (events[:-1] if pauses else events)]
            if pauses:
                await self._resume()
            if out:
                return out
        return []

    def direct_reads(self, id: str) -> None:
        """Return None: a response that is continued is made of events."""

    async def close(self) -> None:
        """Stop and release the connection."""
        await self._source.close()

    def break_off(self) -> None:
        """Abort the `next_events` of another thread."""
        self._broken = True
        self._source.break_off()

    def _pauses(self, finish: Finish) -> bool:
        if finish.raw != _PAUSED or self._resumed >= MOST_RESUMPTIONS:
            return False
        # A call of the caller's tools waits for its result, which a continuation would not have.
        message = self._accumulator.message()
        return bool(message.parts) and not message.tool_calls

    async def _resume(self) -> None:
        message = self._accumulator.message()
        self._message = replace(self._message, parts=(*self._message.parts, *message.parts))
        self._before += self._accumulator.usage
        self._resumed += 1
        while await self._source.next_events():
            pass  # to the end of the body, so that the request is recorded as complete
        await self._source.close()
        self._accumulator = Accumulator()
        messages = (*self._request.messages, self._message)
        self._source = self._open(replace(self._request, messages=messages))
        if self._broken:
            self._source.break_off()

    def _summed(self, event: Event) -> Event:
        """Return the event, with the usage or the text of the earlier requests added to what it counts."""
        if isinstance(event, UsageReport) and self._resumed:
            return UsageReport(self._before + event.usage)
        if isinstance(event, TextCitation) and self._resumed:
            return TextCitation(shifted(event.citation, len(self._message.text)))
        return event
