"""`HTTPExchange`: one request to one service, retried until its first event, and the events of its response.

All I/O is awaited from an `IOBackend`, so the same code serves sync and async calls. After the first event nothing is
retried, so that no content is emitted twice.
"""

from __future__ import annotations

import logging
import random
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, Final, Protocol, TypeVar

from ..async_support import sync_driver
from ..capabilities import LLMMetadata
from ..credentials import Secret
from ..errors import BadRequest, LimitExceeded, LLMError, StreamInterrupted, Timeout
from ..events import Event, Finish, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallDone, UsageReport
from ..hook_protocol import CallHooks, Hooks, RequestInfo
from ..http_request import HTTPRequest
from ..messages import FileRef
from ..providers.base import PartEnd, ProviderAdapter, RequestInput, ResponseDecoder
from ..providers.content_parts import this_turn
from ..providers.http_errors import BODY_LIMIT, request_id
from ..providers.refused_settings import BETA
from ..providers.response_decoder import decoded_frames
from ..retries import RetryPolicy, next_wait, retry_after, wait_reason
from ..settings import Settings
from ..terminal_text import visible
from ..transport.cancel_handle import CancelHandle
from ..transport.network import Body, IOBackend, nothing_is_sent
from ..transport.transport_errors import scrub_exception
from ..usage import NO_USAGE, Usage
from .request_gate import GateRequest, Passage, RequestGate, RequestOrigin
from .request_state import DirectReads, RequestState, SingleCallFilter, deadline_after
from .token_estimates import check_context

T = TypeVar("T")

logger: Final = logging.getLogger("toolcast")

MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024
"""The size limit of one response, far more than any model writes; a single event has a smaller limit."""

_SURE_TO_FIT: Final = 4096  # bytes of a request that needs no check of the context window: no model has a smaller one
_MOST_PARTS: Final = 64  # of one response: Gemini has up to 32
_REFUSALS: Final = (400, 403, 404, 410, 422, 500)
"""The statuses of a refusal that may be about something in the request, such as a file that has expired."""

_LAST_WORD: Final = r'[^\s"]*\Z'
_LOGGED: Final = 4096  # characters of a body in the log
_MORE = frozenset((TextDelta, ToolCallDelta))  # frequent events without anything to record
_SIGNED = frozenset((ThinkingDelta, ToolCallDone))  # may carry data that must be returned to the service


class HTTPService(Protocol):
    """The methods of an LLM that an exchange calls."""

    hooks: tuple[Hooks, ...]

    @property
    def retry_policy(self) -> RetryPolicy: ...
    @property
    def keep_raw(self) -> bool: ...
    @property
    def metadata(self) -> LLMMetadata: ...
    @property
    def request_origin(self) -> RequestOrigin:
        """The service, the model and the credentials of the requests."""
        ...

    @property
    def authorizes(self) -> bool:
        """True if `authorize` changes requests."""
        ...

    def warn_of_dropped_settings(self, request: HTTPRequest) -> None:
        """Log the settings that `request` leaves out."""
        ...

    def price(self, usage: Usage, model: str | None = None) -> Usage:
        """Return the usage of one request with its prices. `model` is the one that the response names."""
        ...

    async def prepare(
        self, conversation: RequestInput, backend: IOBackend, limit: float | None = None
    ) -> ProviderAdapter:
        """Return the adapter, once the service is ready for requests. `limit`: the seconds that the call has left."""
        ...

    async def authorize(self, request: HTTPRequest, backend: IOBackend, limit: float | None = None) -> HTTPRequest:
        """Return `request` with the headers of its authentication. `limit`: the seconds that the call has left."""
        ...

    def renew(self, request: HTTPRequest) -> bool:
        """Return True if `request`, which was refused with status 401, may be sent again with other credentials."""
        ...


class HTTPExchange:
    """The events of one response, from the request to the last byte."""

    _more_text: Callable[[bytes], str | None]  # set by `direct_reads`

    def __init__(
        self,
        service: HTTPService,
        conversation: RequestInput,
        settings: Settings,
        backend: IOBackend,
        call: RequestState,
    ) -> None:
        self.request_id: str | None = None
        self._service = service
        self._conversation = conversation
        self._settings = settings
        self._timeouts = settings.timeouts
        self._idle = inf if self._timeouts.idle is None else self._timeouts.idle
        self._deadline = inf if call.deadline is None else call.deadline
        self._backend = backend
        self._call = call
        self._cancel_handle = CancelHandle()
        self._body: Body | None = None
        self._decoder: ResponseDecoder | None = None
        self._adapter: ProviderAdapter | None = None
        self._request: HTTPRequest | None = None
        self._first_token_by: float | None = None  # None without this limit, or after the first event
        self._emitted = False
        self._renewed = False  # a request was sent again with other credentials
        self._adapted = False  # a request was sent again without what was refused
        self._ended = False
        self._now = backend.now
        self._label = ""  # the call and the attempt, for the logged bodies
        self._asked = 0.0  # the time when the last wait began
        self._began = 0.0  # and the present attempt
        self._bytes_left = MAX_RESPONSE_BYTES
        self._only = None if conversation.parallel else SingleCallFilter()
        self._dropping = False
        self._usage = NO_USAGE  # of the last attempt
        self._before = NO_USAGE  # of the parts of the response before it
        self._parts = 0  # so many of them
        self._goes_on: ResponseDecoder | None = None  # the decoder of all parts
        self._keeps_raw = service.keep_raw and conversation.stream
        self._received: bytearray | None = None  # the start of the body, where it is logged; all of it for `keep_raw`
        self._receives = MAX_RESPONSE_BYTES if self._keeps_raw else 2 * _LOGGED
        self._gate_request: GateRequest | None = None
        self._passage: Passage | None = None
        self._hooks: CallHooks | None = None  # of the last attempt that was sent
        self.read: Any = None  # the read method of the response, set by `direct_reads`
        self._returned: bytes | None = None  # the data of a direct read that `next_events` has to process
        self._read_error: LLMError | TimeoutError | None = None  # the error of one that it has to raise

    async def next_events(self) -> list[Event]:
        """Return the next events, or an empty list at the end."""
        before = sys.exception()
        while not self._ended:
            try:
                self._check_cancelled()
                body, decoder = self._body, self._decoder
                if body is None or decoder is None:
                    await self._open()
                    continue
                data = b"" if decoder.failed else self._returned
                if data is None:
                    data = await body.read(self.time_left())
                self._returned = None
                self._bytes_left -= len(data)
                if self._bytes_left < 0:
                    raise LimitExceeded(
                        f"the response is longer than {MAX_RESPONSE_BYTES} bytes: the service does not end it"
                    )
                if self._received is not None and len(self._received) < self._receives:
                    self._received += data[: self._receives]
                events = decoder.feed(data) if data else decoder.close()
                if len(events) != 1 or type(events[0]) not in _MORE or self._dropping:
                    events = self._record_events(events)
                if not data:
                    await self._end_body(events, decoder)
            except (LLMError, TimeoutError) as error:
                data = b""  # a traceback must not show data that may contain the key
                failure = self._with_timeout_phase(error)
                scrub_exception(failure, self._request, before)
                await self._drop()
                await self._retry_or_raise(failure)
            except BaseException as error:
                self._leave(error)
                await self._drop()
                raise
            else:
                if events:
                    self._emitted = True
                    self._first_token_by = None
                    return events
        return []

    def direct_reads(self, id: str) -> DirectReads | None:
        """Return the direct reads, if the last event continued the call `id` and the next may do only that."""
        decoder, body = self._decoder, self._body
        # The other events of a read may have been dropped, so that the decoder has gone on to another call.
        if decoder is None or body is None or decoder.open_call != id or self._received is not None:
            return None
        self.read = body.direct_read
        self._more_text = decoder.more_text
        return self

    def time_left(self) -> float | None:
        """Return the time limit of the next read in seconds. Raise `Timeout`, or `StreamInterrupted` if cancelled."""
        if self._cancel_handle.broken:
            self._check_cancelled()
        now = self._asked = self._now()
        first_token_by = self._first_token_by
        left = self._idle if first_token_by is None else first_token_by - now
        total = self._deadline - now
        if left > total:
            left = total
        if left <= 0:
            raise self._timeout_error(self._phase)
        return left if left < inf else None

    def accept(self, data: bytes) -> str | None:
        """Return the text that `data` adds to the call; None for any other data, which is kept for `next_events`."""
        left = self._bytes_left - len(data)
        if left >= 0 and (text := self._more_text(data)) is not None:
            self._bytes_left = left
            return text
        self._returned = data
        return None

    def put_back(self, error: LLMError | TimeoutError) -> None:
        """Keep the error of a direct read for `next_events`."""
        self._read_error = error

    async def _end_body(self, events: list[Any], decoder: ResponseDecoder) -> None:
        """End the response, or prepare the request for its next part."""
        if not events or type(events[-1]) is not PartEnd:
            await self.close()
            return
        part: PartEnd = events.pop()
        self._goes_on = decoder
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise LimitExceeded(f"the response goes on after {_MOST_PARTS} parts: the service does not end it")
        self._call.record(None, self._usage, self.request_id, self._now() - self._began)
        if self._passage is not None:
            self._leave(None)
        await self._drop()
        self._settings = replace(self._settings, extra={**(self._settings.extra or {}), **part.fields})
        self._before, self._usage = self._before + self._usage, NO_USAGE
        self._emitted = False  # of this part nothing has been
        decoder.expect_body()

    async def close(self) -> None:
        """Stop and release the connection. An unread response counts as an attempt too."""
        if self._decoder is not None and not self._ended:
            self._ended = True
            self._call.record(None, self._usage, self.request_id, self._now() - self._began)
        if self._passage is not None:
            self._leave(None)
        await self._drop()

    def break_off(self) -> None:
        """Abort the wait of another thread: for the headers, a chunk of the body, or the next attempt."""
        body = self._body
        if not self._cancel_handle.break_off() and body is not None and not self._backend.concurrent:
            sync_driver.run(body.close())  # the read of a user's network, which has no `break_off`

    def _check_cancelled(self) -> None:
        """Raise `StreamInterrupted` if the response was aborted, or else the error of a direct read."""
        if self._cancel_handle.broken:
            raise StreamInterrupted("the response was aborted", retryable=False)
        if self._read_error is not None:
            error, self._read_error = self._read_error, None
            raise error

    async def _drop(self) -> None:
        body, self._body = self._body, None
        if self._received is not None and self._request is not None:
            if logger.isEnabledFor(logging.DEBUG):
                outcome = "" if body is None else f" ({body.status} after {self._now() - self._began:.2f} s)"
                log_body(f"response body{self._label}{outcome}", self._request, bytes(self._received))
            self._received = None
        if body is not None:
            await body.close()

    async def _enter(self, gate: RequestGate) -> None:
        self._began = self._now()  # of an attempt that fails here
        request = self._gate_request
        if request is None:
            chat, service = self._conversation, self._service
            limit, most = self._settings.max_tokens, service.metadata.capabilities.max_output
            request = GateRequest(service.request_origin, chat.messages, chat.tools, limit, service.price, most)
            self._gate_request = request
        with self._cancel_handle:
            self._passage = await self._call.enter_gate(gate, request, self._backend)
        self._deadline = inf if self._call.deadline is None else self._call.deadline

    def _leave(self, error: BaseException | None) -> bool:
        """End the passage, if there is one. Return True if the gate will admit the request again."""
        passage, self._passage = self._passage, None
        return passage is not None and self._call.leave_gate(passage, self._usage, error)

    async def _open(self) -> None:
        if (gate := self._call.gate) is not None:
            await self._enter(gate)
        now = self._asked = self._began = self._now()
        self._decoder = self.request_id = self._returned = None
        self._bytes_left = MAX_RESPONSE_BYTES
        self._first_token_by = deadline_after(now, self._timeouts.first_token)
        # Before anything that can fail, so that it has the number that its `Attempt` will have.
        hooks = None if self._call.hooks is None else self._call.begin_request(self._service.hooks, now)
        limit = None if (deadline := self._call.deadline) is None else deadline - now
        adapter = await self._service.prepare(self._conversation, self._backend, limit)
        self._adapter = adapter.for_request(self._conversation, self._settings)
        for at, message in enumerate(self._conversation.messages):
            for part in message.parts:
                if type(part) is FileRef:
                    self._check_file(part, at)
        request = self._adapter.request(self._conversation, self._settings)
        if len(request.body) > _SURE_TO_FIT:
            chat = self._conversation
            check_context(chat.messages, chat.tools, self._service.metadata, self._settings)
        if request.notes:
            self._service.warn_of_dropped_settings(request)
        if self._service.authorizes:
            left = self._left(self._asked, None)
            request = await self._in_time(partial(self._service.authorize, request, self._backend, left))
        self._request = self._call.request = request
        if hooks is not None:
            self._hooks = hooks
            chat, choice = self._conversation, self._conversation.tool_choice
            info = RequestInfo(
                chat.messages, self._settings, choice, chat.mode, chat.stream, chat.tools, request, chat.server_tools
            )
            hooks.emit("request", info)
        if logger.isEnabledFor(logging.DEBUG):
            of = "" if not self._call.id else f" of {self._call.id}"
            self._label = f"{of}, attempt {len(self._call.attempts) + 1}"
            log_body(f"request body{self._label}", request, request.body)
        self._body = body = await self._connect(request, now)
        if self._passage is not None:
            self._passage.received(body.status, body.headers)
        self._received = bytearray() if self._keeps_raw or logger.isEnabledFor(logging.DEBUG) else None
        if body.status >= 300:
            raise await self._refusal(self._adapter, body)
        self.request_id = _request_id(body.headers, request)
        self._decoder = self._goes_on or self._adapter.decoder(self._conversation)

    def _check_file(self, part: FileRef, at: int) -> None:
        """Raise `BadRequest` for an expired file in the message `at`, unless it is of an earlier turn.

        Not in a replay, which sends nothing.
        """
        if part.expires_at is None or part.expires_at > self._backend.time() or nothing_is_sent():
            return
        expired = BadRequest(
            f"the reference to the file {part.id!r:.100} at {part.provider} has expired: get a new one with "
            "llm.describe_file(ref), or, if the file is gone, upload it again",
            provider=part.provider,
            model=self._conversation.model,
        )
        is_old = at < this_turn(self._conversation.messages)
        adapter = self._adapter
        if adapter is None or not (is_old and adapter.adapt_to(expired, self._conversation, self._settings)):
            raise expired

    async def _in_time(self, call: Callable[[], Awaitable[T]]) -> T:
        """Await a user's code within the deadline of the call. Without an event loop it cannot be interrupted."""
        if not self._backend.concurrent:
            return await call()
        import anyio

        with anyio.move_on_after(self._left(self._asked, None)):
            return await call()
        raise self._timeout_error("total")

    async def _connect(self, request: HTTPRequest, now: float) -> Body:
        read, idle = self._timeouts.first_token, self._timeouts.idle
        if not self._backend.concurrent:  # in sync calls it is the limit of each later chunk, too
            read = None if read is None or idle is None else max(read, idle)
        connect, read = self._left(now, self._timeouts.connect), self._left(now, read)
        try:
            with self._cancel_handle:
                return await self._backend.open(request, connect=connect, read=read)
        except Timeout as error:
            raise self._timeout_error("connect" if error.phase == "connect" else self._phase) from error.__cause__

    async def _refusal(self, adapter: ProviderAdapter, body: Body) -> LLMError:
        content = bytearray()
        while len(content) < BODY_LIMIT and (data := await body.read(self.time_left())):
            content += data
        if self._received is not None:
            self._received += content
        error = adapter.error(body.status, body.headers, bytes(content))
        waits = retry_after(body.headers, self._backend.time())
        error.retry_after = error.retry_after if waits is None else waits
        error.request_id = error.request_id or _request_id(body.headers, self._request)
        return error

    def _record_events(self, events: list[Event]) -> list[Event]:
        """Return the events to emit, after recording usage and tagging data for the service."""
        if not self._conversation.stream:
            self._first_token_by = None
        for place, event in enumerate(events):
            if type(event) is UsageReport:
                self._usage = self._service.price(event.usage, self._decoder.model if self._decoder else None)
                events[place] = UsageReport(self._before + self._usage if self._parts else self._usage)
            elif type(event) in _SIGNED:
                prefix = self._request.prefix if self._request else None
                events[place] = tag_with_origin(event, self._conversation.model, prefix)
            elif type(event) is Finish and self._keeps_raw and event.body is None and self._received is not None:
                events[place] = replace(event, body=decoded_frames(bytes(self._received)))
        if self._only is None or not events:
            return events
        events = self._only.of(events)
        self._dropping = self._only.dropping
        return events

    def _with_timeout_phase(self, error: LLMError | TimeoutError) -> LLMError:
        """Return `error`, or for a timed-out read the `Timeout` of the limit that was exceeded."""
        if isinstance(error, TimeoutError) or (isinstance(error, Timeout) and error.phase == "idle"):
            late = self._timeout_error(self._phase)
            late.__cause__ = error.__cause__
            return late
        assert isinstance(error, LLMError)
        return error

    @property
    def _phase(self) -> str:
        """The phase whose limit ends first, for a wait that began at the last reading of the clock."""
        first_token_by = self._first_token_by
        phase, until = ("idle", self._asked + self._idle) if first_token_by is None else ("first_token", first_token_by)
        return phase if until <= self._deadline else "total"

    def _timeout_error(self, phase: str) -> Timeout:
        seconds = getattr(self._timeouts, phase)
        problems = {
            "connect": f"no connection within {seconds} s",
            "first_token": f"no response within {seconds} s",
            "idle": f"the response stopped for {seconds} s",
            "total": f"the call did not end within {seconds} s",
        }
        hint = f"allow more with settings=Settings(timeout=Timeouts({phase}=...))"
        return Timeout(f"{problems[phase]}; {hint}", phase=phase)

    def _left(self, now: float, limit: float | None) -> float | None:
        deadline = self._call.deadline
        if deadline is None:
            return limit
        left = max(deadline - now, 0.001)
        return left if limit is None else min(limit, left)

    async def _retry_or_raise(self, error: LLMError) -> None:
        """Wait for the next attempt, or raise `error` after the last."""
        self._describe(error)
        again = self._leave(error) or self._renews(error)
        final = self._emitted or self._cancel_handle.broken
        wait = None if final else 0.0 if again else self._wait_after(error)
        self._call.record(error, self._usage, error.request_id, self._now() - self._began, wait or 0.0)
        if wait is None:
            self._ended = True
            if self._adapted and self._adapter is not None and error.status in _REFUSALS:
                self._adapter.take_back(self._conversation)
            raise self._call.with_attempts(error)
        self._call.retries_used += not again
        if self._goes_on is not None:
            self._goes_on.expect_body()
        if self._hooks is not None:
            self._hooks.for_last_request().emit("retry", error, wait)
        if again:  # the gate decides how long the next attempt waits
            return
        if logger.isEnabledFor(logging.INFO):
            self._log_wait(error, wait)
        with self._cancel_handle:
            await self._backend.sleep(wait)

    def _renews(self, error: LLMError) -> bool:
        """Return True if the service refused what can be left out, or, once, credentials that can be replaced."""
        request = self._request
        if error.status in _REFUSALS and request is not None and self._is_sent_without(error, request):
            return True
        if self._renewed or error.status != 401 or request is None or not self._service.renew(request):
            return False
        self._renewed = True
        return True

    def _is_sent_without(self, error: LLMError, request: HTTPRequest) -> bool:
        """Return True if the request is another one without what the service has refused in it."""
        if self._adapter is None or not self._adapter.adapt_to(error, self._conversation, self._settings):
            return False
        other = self._adapter.request(self._conversation, self._settings)
        is_another = other.body != request.body or other.headers.get(BETA) != request.headers.get(BETA)
        self._adapted |= is_another
        return is_another

    def _log_wait(self, error: LLMError, wait: float) -> None:
        attempt = f"{f'{self._call.id} ' if self._call.id else ''}attempt {len(self._call.attempts)}"
        origin = visible(f"{error.provider} {error.model}")
        kind = type(error).__name__ if error.status is None else f"{type(error).__name__} ({error.status})"
        why = wait_reason(error)
        logger.info("%s with %s: %s, the next in %.2f s (%s)", attempt, origin, kind, wait, why)

    def _wait_after(self, error: LLMError) -> float | None:
        return next_wait(
            self._service.retry_policy,
            retries_used=self._call.retries_used,
            failure=error,
            now=self._backend.now(),
            deadline=self._call.deadline,
            chance=random.random(),
        )

    def _describe(self, error: LLMError) -> None:
        error.provider = error.provider or (self._adapter.provider if self._adapter else None)
        error.model = error.model or self._conversation.model
        error.request_id = error.request_id or self.request_id
        if self._request is not None and error.request_id:
            error.request_id = self._request.mask(error.request_id)


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


def with_headers(request: HTTPRequest, headers: Mapping[str, str | Secret]) -> HTTPRequest:
    """Return `request` with further headers."""
    return replace(request, headers={**request.headers, **headers})


def _request_id(headers: Mapping[str, str], request: HTTPRequest | None) -> str | None:
    found = request_id(headers)
    return request.mask(found) if found and request else found
