"""`ContinuedEvents`: the events of a response that continues one that the service stores.

The request has the whole conversation. If the service stores the start of it, as a response or in a conversation of its
own, only the messages after that are sent. A stored response expires, and the service deletes it on demand: then the
whole conversation is sent instead, once, within the deadline of the call. A conversation of the service has no such
replacement, as what it has cannot be changed from here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from ...errors import BadRequest, LLMError, NotFound
from ...events import Event, Finish
from ...providers.content_parts import count_system_messages
from ...transport.network import IOBackend
from ...values.output_mode import OutputMode
from ..call_state import CallState, DirectReads, ResponseEvents
from ..request import ChatRequest, StoredResponse
from .http_exchange import HTTPExchange
from .service import HTTPClient

logger: Final = logging.getLogger("toolcast")

_COMPLETE: Final = frozenset(("end_turn", "tool_use"))
"""The stop reasons of responses that can be continued: others may end in the middle of a call."""

_LOST: Final = re.compile(
    # OpenAI: `previous_response_not_found`, "Previous response with id 'resp_1' not found.", "Invalid
    # `previous_response_id`."; and of a chain that has lost an earlier response, "No tool call found for function call
    # output with call_id call_1.", "Item 'rs_1' ... not found."
    r"previous.?response|no tool (call|output) found|\bnot.?found\b|does not exist|expired",
    re.IGNORECASE,
)


def open_stored(
    client: HTTPClient, request: ChatRequest, mode: OutputMode, backend: IOBackend, call: CallState, *, stores: bool
) -> ResponseEvents:
    """Return the events of a response with settings for stored responses. `stores`: the service stores them."""
    llm = client.llm

    def exchange(sent: ChatRequest) -> ResponseEvents:
        background = None
        if sent.settings.background:
            from .background_responses import Background

            background = Background(llm, backend)
        return HTTPExchange(client, sent.conversation(llm.model, mode), sent.settings, backend, call, background)

    settings = request.settings
    if not stores or (settings.previous_response_id != "auto" and settings.conversation is None):
        return exchange(request)
    adapter = llm.adapter
    with suppress(BadRequest):  # which the exchange raises
        if adapter.for_request(request.conversation(llm.model, mode), settings) is not adapter:
            return exchange(request)  # by the protocol that stores nothing
    own = StoredResponse("", adapter.provider, llm.model, adapter.base_url, settings.conversation or "")
    return ContinuedEvents(request, own, exchange, call)


class ContinuedEvents:
    """The events of one response.

    Args:
        request: The request, with the whole conversation.
        own: The service, the model and the service's conversation, without an id.
        open: Returns the events of the response to a request.
        call: The state of the call, whose `stored` is set at the end.
    """

    def __init__(
        self,
        request: ChatRequest,
        own: StoredResponse,
        open: Callable[[ChatRequest], ResponseEvents],
        call: CallState,
    ) -> None:
        self._request = request
        self._own = own
        self._open = open
        self._call = call
        self._broken = False
        shorter = continuation(request, own)
        self._replaceable = shorter is not None and not own.conversation
        self._source = open(request if shorter is None else shorter)

    @property
    def request_id(self) -> str | None:
        """The service's id of the last request."""
        return self._source.request_id

    async def next_events(self) -> list[Event]:
        """Return the next events, or an empty list at the end."""
        try:
            events = await self._source.next_events()
        except LLMError as error:
            if not (self._replaceable and is_lost(error)):
                raise
            logger.info("%s: the whole conversation is sent instead", error.message)
            await self._source.close()
            self._replaceable = False
            self._source = self._open(self._request)
            if self._broken:
                self._source.break_off()
            events = await self._source.next_events()
        if events:
            self._replaceable = False
            if isinstance(events[-1], Finish):
                self._remember(events[-1])
        return events

    def direct_reads(self, id: str) -> DirectReads | None:
        """Return the direct reads of the response."""
        return self._source.direct_reads(id)

    async def close(self) -> None:
        """Stop and release the connection."""
        await self._source.close()

    def break_off(self) -> None:
        """Abort the `next_events` of another thread."""
        self._broken = True
        self._source.break_off()

    def _remember(self, finish: Finish) -> None:
        # A conversation has also what was cut off.
        if finish.response_id and (finish.stop_reason in _COMPLETE or self._own.conversation):
            self._call.stored = replace(self._own, id=finish.response_id)


def continuation(request: ChatRequest, own: StoredResponse) -> ChatRequest | None:
    """Return the request with only the messages that the service does not have; None if all have to be sent.

    Instructions, the system messages at the start, are sent with each request: the service does not take over those of
    the response that is continued.

    Raises:
        BadRequest: The service's conversation has messages that are no longer in this one.
    """
    stored = request.continues
    if stored is None or stored.conversation != own.conversation:
        return None
    # A conversation of the service may be continued by another model.
    if not own.conversation and replace(stored, id="") != own:
        return None
    messages, seen = request.messages, request.seen[count_system_messages(request.seen) :]
    start = count_system_messages(messages)
    new = messages[start + len(seen) :]
    unchanged = messages[start : start + len(seen)] == seen
    # The result of a custom tool, or the approval of a remote call, is encoded by its call, which has to go with it:
    # only what was approved here may be approved there.
    special = bool(seen) and any(call.opaque for call in seen[-1].tool_calls)
    if own.conversation:
        if special:
            raise BadRequest(
                f"conversation={own.conversation!r}: results of custom tools and approvals of remote calls cannot be "
                "sent to a conversation of the service. Use previous_response_id='auto'"
            )
        if not unchanged:
            raise BadRequest(
                f"the history no longer begins with the messages that the conversation {own.conversation!r} has: "
                "they cannot be changed there. Begin a new conversation, or use previous_response_id='auto'"
            )
        return replace(request, messages=(*messages[:start], *new))
    # A system message in front would become an instruction, which the next response would not have.
    if special or not (unchanged and new) or new[0].role == "system":
        return None
    settings = request.settings.with_(previous_response_id=stored.id)
    return replace(request, messages=(*messages[:start], *new), settings=settings)


def is_lost(error: LLMError) -> bool:
    """Return True if the service does not have the response that was to be continued, or a part of it."""
    return isinstance(error, (BadRequest, NotFound)) and _LOST.search(error.message) is not None
