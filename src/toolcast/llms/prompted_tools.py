"""The `prompted` output mode, for any LLM: tools are described in the messages, and calls are parsed from the text.

`to_prompted` moves the tools into the messages; `PromptedEvents` parses the calls in the text of the response.
"""

from __future__ import annotations

from dataclasses import replace

from ..events import Event
from ..providers.tool_calls.json_calls import JSONTextFilter, call_format
from ..providers.tool_calls.prompted_calls import PromptedCalls, to_prompted_messages
from .call_state import CallState, DirectReads, ResponseEvents
from .request import ChatRequest


def to_prompted(request: ChatRequest) -> tuple[ChatRequest, PromptedCalls | None]:
    """Return the request with its tools described in its messages, and the parser of the calls in the answer's text.

    The parser is None if the model may call no tool.
    """
    conversation = request.conversation("", "prompted")
    form = call_format(conversation)
    if form is None:
        return replace(request, tools=(), tool_choice=None), None
    messages = to_prompted_messages(request.messages, form)
    calls = PromptedCalls(form, conversation.calls_before)
    return replace(request, messages=messages, tools=(), tool_choice=None), calls


class PromptedEvents:
    """The events of `source`, with tool calls in place of the text that contains them."""

    def __init__(self, source: ResponseEvents, calls: PromptedCalls, call: CallState, *, accept_damaged: bool) -> None:
        self._source = source
        self._read = JSONTextFilter(calls, accept_damaged=accept_damaged)
        self._call = call

    @property
    def request_id(self) -> str | None:
        """The service's id of the request."""
        return self._source.request_id

    async def next_events(self) -> list[Event]:
        """Return the next events, or an empty list at the end."""
        while events := await self._source.next_events():
            if out := self._read.of(events):
                return out
        if self._read.failure is not None:
            raise self._call.with_attempts(self._read.failure)
        return []

    def direct_reads(self, id: str) -> DirectReads | None:
        """Return None: all text is parsed."""
        return None

    async def close(self) -> None:
        """Stop and release the connection."""
        await self._source.close()

    def break_off(self) -> None:
        """Abort the `next_events` of another thread."""
        self._source.break_off()
