"""`HTTPExchange`: one request to one service, retried until its first event, and the events of its response.

    gate ──> attempt: prepare, encode, authorize, send ──> read, decode ──> events
     ^                                                        │
     └────────────── retry: wait, renew, adapt <──────────────┘

All I/O is awaited from an `IOBackend`, so the same code serves sync and async calls. After the first event nothing is
retried, so that no content is emitted twice.
"""

from __future__ import annotations

import logging
import random
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...async_support import sync_driver
from ...errors import BadRequest, LimitExceeded, LLMError, Timeout
from ...events import Event, Finish, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallDone, UsageReport
from ...messages import FileRef
from ...providers.base import PartEnd, ProviderAdapter, RequestInput, ResponseDecoder
from ...providers.content_parts import this_turn
from ...providers.refused_settings import BETA
from ...providers.response_decoder import decoded_frames
from ...text.terminal_text import visible
from ...transport.cancel_handle import CancelHandle
from ...transport.network import Body, IOBackend, nothing_is_sent
from ...transport.transport_errors import scrub_exception
from ...values.hooks import CallHooks, RequestInfo
from ...values.http_request import HTTPRequest, request_id
from ...values.retries import next_wait, wait_reason
from ...values.settings import Settings
from ...values.usage import NO_USAGE, Usage
from ..call_state import CallState, DirectReads, SingleCallFilter
from ..request_gate import GateRequest, Passage, RequestGate
from ..token_estimates import check_context
from .http_attempt import MAX_RESPONSE_BYTES, TimeLimits, aborted, authorized, connected, refusal
from .service import HTTPClient

if TYPE_CHECKING:
    from .background_responses import Background

logger: Final = logging.getLogger("toolcast")

_SURE_TO_FIT: Final = 4096  # bytes of a request that needs no check of the context window: no model has a smaller one
_MOST_PARTS: Final = 64  # of one response: Gemini has up to 32
_REFUSALS: Final = (400, 403, 404, 410, 422, 500)
"""The statuses of a refusal that may be about something in the request, such as a file that has expired."""

_LAST_WORD: Final = r'[^\s"]*\Z'
_LOGGED: Final = 4096  # characters of a body in the log
_MORE = frozenset((TextDelta, ToolCallDelta))  # frequent events without anything to record
_SIGNED = frozenset((ThinkingDelta, ToolCallDone))  # may carry data that must be returned to the service


class _Attempt:
    """One attempt: the request and its response, as far as they have come."""

    __slots__ = (
        "adapter",
        "began",
        "body",
        "bytes_left",
        "decoder",
        "label",
        "passage",
        "received",
        "request",
        "usage",
    )

    def __init__(self, began: float) -> None:
        self.began: float = began
        self.adapter: ProviderAdapter | None = None
        self.request: HTTPRequest | None = None
        self.body: Body | None = None
        self.decoder: ResponseDecoder | None = None  # once the response has begun
        self.bytes_left: int = MAX_RESPONSE_BYTES
        self.usage: Usage = NO_USAGE
        self.received: bytearray | None = None  # the start of the body, where it is logged; all of it for `keep_raw`
        self.passage: Passage | None = None  # through the gate
        self.label = ""  # the call and the attempt, for the logged bodies


class _Parts:
    """The parts of a response that goes on in the body of another request."""

    def __init__(self, decoder: ResponseDecoder) -> None:
        self.count = 0
        self.usage: Usage = NO_USAGE
        self.decoder: ResponseDecoder = decoder


class HTTPExchange:
    """The events of one response, from the request to the last byte.

    Args:
        client: A client of the LLM.
        conversation: The request, as the adapter encodes it.
        settings: Its settings.
        backend: The network and the clock.
        call: The state of the call, which other requests may share.
        background: What waits for the response of a service that works in the background.
    """

    def __init__(
        self,
        client: HTTPClient,
        conversation: RequestInput,
        settings: Settings,
        backend: IOBackend,
        call: CallState,
        background: Background | None = None,
    ) -> None:
        self.request_id: str | None = None
        self._llm = llm = client.llm
        self._price = client.price
        self._conversation = conversation
        self._settings = settings
        self._backend = backend
        self._call = call
        self._background = background
        self._keeps_raw = llm.keep_raw and conversation.stream
        self._cancel_handle = handle = CancelHandle()
        self._limits = TimeLimits(settings.timeouts, backend.now, call.deadline, handle)
        self._attempt: _Attempt | None = None
        self._gate_request: GateRequest | None = None
        self._hooks: CallHooks | None = None  # of the last attempt that was sent
        self._only = None if conversation.parallel else SingleCallFilter()
        self._parts: _Parts | None = None
        self._direct: _DirectReads | None = None
        self._emitted = False
        self._renewed = False  # a request was sent again with other credentials
        self._adapted = False  # a request was sent again without what was refused
        self._ended = False

    async def next_events(self) -> list[Event]:
        """Return the next events, or an empty list at the end."""
        before = sys.exception()
        while not self._ended:
            attempt = self._attempt
            try:
                if self._cancel_handle.broken:
                    raise aborted()
                if attempt is None:
                    attempt = await self._begin()
                body, decoder = attempt.body, attempt.decoder
                assert body is not None and decoder is not None
                data: Any = None if self._direct is None else self._direct.take()
                if data is None:
                    limit = self._limits.of_read()
                    read: Any = b"" if decoder.failed else body.direct_read(limit)
                    data = await read if hasattr(read, "__await__") else read  # in sync calls it is there
                    attempt.bytes_left -= len(data)
                events: list[Any] = self._decoded(data, decoder, attempt)
                if not data:
                    if events and type(events[-1]) is PartEnd:
                        await self._end_part(events, attempt, decoder)
                    else:
                        await self.close()
            except (LLMError, TimeoutError) as error:
                data = b""  # a traceback must not show data that may contain the key
                await self._fail(error, before)
            except BaseException as error:
                if (attempt := self._attempt) is not None:
                    self._leave(attempt, error)
                    await self._drop(attempt)
                raise
            else:
                if events:
                    self._emitted = True
                    self._limits.first_token_by = None
                    return events
        return []

    def direct_reads(self, id: str) -> DirectReads | None:
        """Return the direct reads, if the last event continued the call `id` and the next may do only that."""
        attempt = self._attempt
        # Each chunk of a response in the background is searched for the numbers of its events.
        if attempt is None or attempt.body is None or attempt.received is not None or self._background is not None:
            return None
        # The other events of a read may have been dropped, so that the decoder has gone on to another call.
        if attempt.decoder is None or attempt.decoder.open_call != id:
            return None
        self._direct = _DirectReads(attempt, attempt.body, attempt.decoder, self._limits)
        return self._direct

    async def close(self) -> None:
        """Stop and release the connection. An unread response counts as an attempt too."""
        attempt = self._attempt
        if attempt is None:
            return
        if attempt.decoder is not None and not self._ended:
            self._ended = True
            self._record(attempt)
        if attempt.passage is not None:
            self._leave(attempt, None)
        if attempt.body is not None:
            await self._drop(attempt)

    def break_off(self) -> None:
        """Abort the wait of another thread: for the headers, a chunk of the body, or the next attempt."""
        body = None if self._attempt is None else self._attempt.body
        if not self._cancel_handle.break_off() and body is not None and not self._backend.concurrent:
            sync_driver.run(body.close())  # the read of a user's network, which has no `break_off`

    # One attempt.

    async def _begin(self) -> _Attempt:
        """Send the request, and return the attempt whose response has begun to arrive."""
        backend, call, llm, chat, limits = self._backend, self._call, self._llm, self._conversation, self._limits
        attempt = _Attempt(backend.now())
        self._attempt, self._direct, self.request_id = attempt, None, None
        if call.gate is not None:
            await self._enter(call.gate, attempt)
        limits.deadline = call.deadline
        attempt.began = limits.begin()
        # Before anything that can fail, so that it has the number that its `Attempt` will have.
        hooks = None if call.hooks is None else call.begin_request(llm.hooks, attempt.began)
        adapter = await llm.prepare(chat, backend, limits.left())
        attempt.adapter = adapter = adapter.for_request(chat, self._settings)
        self._check_files(adapter)
        request = adapter.request(chat, self._settings)
        if len(request.body) > _SURE_TO_FIT:
            check_context(chat.messages, chat.tools, llm.metadata, self._settings)
        if request.notes:
            llm.warn_of_dropped_settings(request)
        if (authentication := llm.authentication) is not None:
            request = await authorized(authentication, request, backend, limits)
        attempt.request = call.request = request
        if hooks is not None:
            self._hooks = hooks
            settings, choice = self._settings, chat.tool_choice
            hooks.emit(
                "request",
                RequestInfo(
                    chat.messages, settings, choice, chat.mode, chat.stream, chat.tools, request, chat.server_tools
                ),
            )
        logs = logger.isEnabledFor(logging.DEBUG)
        if logs:
            of = "" if not call.id else f" of {call.id}"
            attempt.label = f"{of}, attempt {len(call.attempts) + 1}"
            log_body(f"request body{attempt.label}", request, request.body)
        with self._cancel_handle:
            attempt.body = body = await connected(request, backend, limits)
        if attempt.passage is not None:
            attempt.passage.received(body.status, body.headers)
        if logs or self._keeps_raw:
            attempt.received = bytearray()
        if body.status >= 300:
            raise await refusal(adapter, body, backend, limits, attempt.received)
        if id := request_id(body.headers):
            self.request_id = request.mask(id)
        if self._background is not None:
            handle, stream = self._cancel_handle, chat.stream
            attempt.body = self._background.body(body, request, adapter, limits, handle, stream=stream)
        attempt.decoder = adapter.decoder(chat) if self._parts is None else self._parts.decoder
        return attempt

    async def _enter(self, gate: RequestGate, attempt: _Attempt) -> None:
        request = self._gate_request
        if request is None:
            chat, llm = self._conversation, self._llm
            limit, most = self._settings.max_tokens, llm.metadata.capabilities.max_output
            request = GateRequest(llm.request_origin, chat.messages, chat.tools, limit, self._price, most)
            self._gate_request = request
        with self._cancel_handle:
            attempt.passage = await self._call.enter_gate(gate, request, self._backend)

    def _check_files(self, adapter: ProviderAdapter) -> None:
        """Raise `BadRequest` for an expired file, unless it is of an earlier turn and can be left out."""
        for at, message in enumerate(self._conversation.messages):
            for part in message.parts:
                if type(part) is FileRef:
                    self._check_file(adapter, part, at)

    def _check_file(self, adapter: ProviderAdapter, part: FileRef, at: int) -> None:
        if part.expires_at is None or part.expires_at > self._backend.time() or nothing_is_sent():
            return
        expired = BadRequest(
            f"the reference to the file {part.id!r:.100} at {part.provider} has expired: get a new one with "
            "llm.describe_file(ref), or, if the file is gone, upload it again",
            provider=part.provider,
            model=self._conversation.model,
        )
        is_old = at < this_turn(self._conversation.messages)
        if not (is_old and adapter.adapt_to(expired, self._conversation, self._settings)):
            raise expired

    def _decoded(self, data: bytes, decoder: ResponseDecoder, attempt: _Attempt) -> list[Event]:
        """Return the events that `data` completes, or those of the end.

        Usage in them is recorded, and data for the service is tagged with its origin.
        """
        if attempt.bytes_left < 0:
            raise LimitExceeded(f"the response is longer than {MAX_RESPONSE_BYTES} bytes: the service does not end it")
        if attempt.received is not None:
            most = MAX_RESPONSE_BYTES if self._keeps_raw else 2 * _LOGGED
            if len(attempt.received) < most:
                attempt.received += data[:most]
        if not self._conversation.stream:
            self._limits.first_token_by = None
        events = decoder.feed(data) if data else decoder.close()
        if not events:
            return events
        if len(events) == 1 and type(events[0]) in _MORE and not (self._only and self._only.dropping):
            return events
        for place, event in enumerate(events):
            if type(event) is UsageReport:
                attempt.usage = self._price(event.usage, decoder.model)
                parts = self._parts
                events[place] = UsageReport(attempt.usage if parts is None else parts.usage + attempt.usage)
            elif type(event) in _SIGNED:
                prefix = attempt.request.prefix if attempt.request else None
                events[place] = tag_with_origin(event, self._conversation.model, prefix)
            elif type(event) is Finish and self._keeps_raw and event.body is None and attempt.received is not None:
                events[place] = replace(event, body=decoded_frames(bytes(attempt.received)))
        return events if self._only is None else self._only.of(events)

    async def _end_part(self, events: list[Any], attempt: _Attempt, decoder: ResponseDecoder) -> None:
        """Prepare the request for the next part of the response."""
        part: PartEnd = events.pop()
        parts = self._parts = self._parts or _Parts(decoder)
        parts.count += 1
        if parts.count > _MOST_PARTS:
            raise LimitExceeded(f"the response goes on after {_MOST_PARTS} parts: the service does not end it")
        parts.usage += attempt.usage
        self._record(attempt)
        self._leave(attempt, None)
        await self._drop(attempt)
        self._settings = replace(self._settings, extra={**(self._settings.extra or {}), **part.fields})
        self._attempt, self._direct, self._emitted = None, None, False  # of the next part nothing has been
        decoder.expect_body()

    # The end of an attempt.

    def _record(self, attempt: _Attempt, error: LLMError | None = None, wait: float = 0.0) -> None:
        id = self.request_id if error is None else error.request_id
        self._call.record(error, attempt.usage, id, self._backend.now() - attempt.began, wait)

    def _leave(self, attempt: _Attempt, error: BaseException | None) -> bool:
        """End the passage, if there is one. Return True if the gate will admit the request again."""
        passage, attempt.passage = attempt.passage, None
        return passage is not None and self._call.leave_gate(passage, attempt.usage, error)

    async def _drop(self, attempt: _Attempt) -> None:
        body, attempt.body = attempt.body, None
        if attempt.received is not None and attempt.request is not None:
            if logger.isEnabledFor(logging.DEBUG):
                outcome = "" if body is None else f" ({body.status} after {self._backend.now() - attempt.began:.2f} s)"
                log_body(f"response body{attempt.label}{outcome}", attempt.request, bytes(attempt.received))
            attempt.received = None
        if body is not None:
            await body.close()

    async def _fail(self, error: LLMError | TimeoutError, before: BaseException | None) -> None:
        """Wait for the next attempt, or raise the error after the last."""
        attempt = self._attempt or _Attempt(self._backend.now())  # aborted before the first
        failure = self._with_timeout_phase(error)
        scrub_exception(failure, attempt.request, before)
        await self._drop(attempt)
        self._describe(failure, attempt)
        again = self._leave(attempt, failure) or self._renews(failure, attempt)
        wait = None if self._emitted or self._cancel_handle.broken else 0.0 if again else self._wait_after(failure)
        self._record(attempt, failure, wait or 0.0)
        if wait is None:
            self._ended = True
            if self._adapted and attempt.adapter is not None and failure.status in _REFUSALS:
                attempt.adapter.take_back(self._conversation)
            raise self._call.with_attempts(failure)
        self._call.retries_used += not again
        self._attempt = None
        if self._parts is not None:
            self._parts.decoder.expect_body()
        if self._hooks is not None:
            self._hooks.for_last_request().emit("retry", failure, wait)
        if again:  # the gate decides how long the next attempt waits
            return
        if logger.isEnabledFor(logging.INFO):
            self._log_wait(failure, wait)
        with self._cancel_handle:
            await self._backend.sleep(wait)

    def _with_timeout_phase(self, error: LLMError | TimeoutError) -> LLMError:
        """Return `error`, or for a timed-out read the `Timeout` of the limit that was exceeded."""
        if isinstance(error, TimeoutError) or (isinstance(error, Timeout) and error.phase == "idle"):
            late = self._limits.exceeded()
            late.__cause__ = error.__cause__
            return late
        assert isinstance(error, LLMError)
        return error

    def _describe(self, error: LLMError, attempt: _Attempt) -> None:
        error.provider = error.provider or (attempt.adapter.provider if attempt.adapter else None)
        error.model = error.model or self._conversation.model
        error.request_id = error.request_id or self.request_id
        if attempt.request is not None and error.request_id:
            error.request_id = attempt.request.mask(error.request_id)

    def _renews(self, error: LLMError, attempt: _Attempt) -> bool:
        """Return True if the service refused what can be left out, or, once, credentials that can be replaced."""
        request, authentication = attempt.request, self._llm.authentication
        if request is None:
            return False
        if error.status in _REFUSALS and self._is_sent_without(error, attempt, request):
            return True
        if self._renewed or error.status != 401 or authentication is None or not authentication.renew(request):
            return False
        self._renewed = True
        return True

    def _is_sent_without(self, error: LLMError, attempt: _Attempt, request: HTTPRequest) -> bool:
        """Return True if the request is another one without what the service has refused in it."""
        adapter, chat = attempt.adapter, self._conversation
        if adapter is None or not adapter.adapt_to(error, chat, self._settings):
            return False
        other = adapter.request(chat, self._settings)
        is_another = other.body != request.body or other.headers.get(BETA) != request.headers.get(BETA)
        self._adapted |= is_another
        return is_another

    def _wait_after(self, error: LLMError) -> float | None:
        if self._background is not None and self._background.given_up:
            return None
        return next_wait(
            self._llm.retry_policy,
            error,
            retries_used=self._call.retries_used,
            now=self._backend.now(),
            deadline=self._call.deadline,
            chance=random.random(),
        )

    def _log_wait(self, error: LLMError, wait: float) -> None:
        attempt = f"{f'{self._call.id} ' if self._call.id else ''}attempt {len(self._call.attempts)}"
        origin = visible(f"{error.provider} {error.model}")
        kind = type(error).__name__ if error.status is None else f"{type(error).__name__} ({error.status})"
        why = wait_reason(error)
        logger.info("%s with %s: %s, the next in %.2f s (%s)", attempt, origin, kind, wait, why)


class _DirectReads:
    """The reads of a response in which each event continues one tool call; see `DirectReads`."""

    __slots__ = ("_attempt", "_error", "_more_text", "_returned", "read", "time_left")

    def __init__(self, attempt: _Attempt, body: Body, decoder: ResponseDecoder, limits: TimeLimits) -> None:
        self.read: Any = body.direct_read
        self.time_left: Any = limits.of_read
        self._more_text = decoder.more_text
        self._attempt = attempt
        self._returned: bytes | None = None  # the data that `next_events` has to process
        self._error: LLMError | TimeoutError | None = None  # and the error that it has to raise

    def accept(self, data: bytes) -> str | None:
        """Return the text that `data` adds to the call; None for any other data, which is kept for `next_events`."""
        left = self._attempt.bytes_left = self._attempt.bytes_left - len(data)
        if left >= 0 and (text := self._more_text(data)) is not None:
            return text
        self._returned = data
        return None

    def put_back(self, error: LLMError | TimeoutError) -> None:
        """Keep the error of a direct read for `next_events`."""
        self._error = error

    def take(self) -> bytes | None:
        """Return the data that was kept, if there is some; raise the error that was."""
        if (error := self._error) is not None:
            self._error = None
            raise error
        data, self._returned = self._returned, None
        return data


def log_body(kind: str, request: HTTPRequest, body: bytes) -> None:
    """Log the start of a body at DEBUG, with secrets masked."""
    text = request.mask(body[: 2 * _LOGGED].decode("utf-8", "replace"))
    if len(body) >= 2 * _LOGGED:  # a key that was cut in half there would not be masked
        text = re.sub(_LAST_WORD, "", text)
    shown = (
        text if len(text) <= _LOGGED and len(body) < 2 * _LOGGED else f"{text[:_LOGGED]}… ({len(body)} bytes or more)"
    )
    logger.debug("%s, %s %s: %s", kind, request.method, request.url, visible(shown))


def tag_with_origin(event: Event, model: str, prefix: str | None) -> Event:
    """Return `event`, with its opaque data tagged with the model that can read it, and a thought with its prefix."""
    if isinstance(event, (ThinkingDelta, ToolCallDone)) and event.opaque:
        event = replace(event, opaque={**event.opaque, "model": model})
    if prefix and isinstance(event, ThinkingDelta) and (event.signature or event.redacted or event.opaque):
        event = replace(event, opaque={**(event.opaque or {}), "prefix": prefix})
    return event
