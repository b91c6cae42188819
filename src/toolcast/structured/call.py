"""One structured call: request, validation, tool execution, and retries with the validation errors.

`PreparedCall` has everything that the call needs; `run_call` makes it and waits for the result. `StructuredStream`
(`stream`) makes the same call as a stream. Both validate the response with the same `ResponseValidator`, so they return
the same values and raise the same errors.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from decimal import Decimal
from functools import partial
from typing import Any, Final, Generic, TypeVar

from typing_extensions import TypeForm

from ..errors import (
    Attempt,
    CallError,
    MalformedEvent,
    NoToolCallError,
    TryAgain,
    ValidationError,
    add_advice,
    drop_general_advice,
)
from ..events import ChatResponse
from ..lazy.lazy_dataclasses import dataclass
from ..llms.call_report import Account
from ..llms.call_state import CallState, read_response
from ..llms.client import LLMClient
from ..llms.request import ChatRequest, StoredResponse
from ..text.json_text import json_text
from ..tools.callable_tool import ParsedArguments
from ..tools.execution import ValueJob, run_calls
from ..transport.network import IOBackend
from ..values.plain_data import from_plain, hide_content, to_plain
from ..values.states import Trace
from ..values.usage import Usage
from .response_validation import (
    RETRYABLE,
    CompleteValue,
    ResponseValidator,
    ValidatedCall,
    retry_messages,
)

logger: Final = logging.getLogger("toolcast")

T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """The output of a call, with its last response, usage, attempts and repairs.

    Attributes:
        output: The validated output.
        response: The last response.
        usage: Tokens, summed over all requests.
        attempts: One entry for each request.
        repairs: The repairs that the response needed, as text.
        notes: What of the last request was not sent as it was set: settings that the service does not have, or refused.
        hidden_tools: The tools whose types hide their input: `to_dict` leaves their arguments out.
    """

    output: T
    response: ChatResponse
    usage: Usage
    attempts: tuple[Attempt, ...]
    repairs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    hidden_tools: frozenset[str] = field(default=frozenset(), repr=False, compare=False)

    @property
    def cost(self) -> Decimal | None:
        """The estimated cost of all requests in US dollars; None if it is unknown, for one of them too."""
        return self.usage.cost

    def _repr_html_(self) -> str:
        """Return HTML for notebooks. Secrets in the output are masked."""
        from ..values.html_repr import table

        response = self.response
        rows = [
            ("output", to_plain(self.output)),
            ("model", " ".join([name for name in (response.provider, response.model) if name]) or None),
            ("usage", self.usage.describe()),
            ("requests", len(self.attempts)),
            ("repairs", list(self.repairs) or None),
            ("notes", list(self.notes) or None),
        ]
        return table(f"Result: {type(self.output).__name__}", rows)

    def to_dict(self, *, raw: bool = False) -> dict[str, Any]:
        """Return JSON-compatible data. Secrets in the output are masked.

        Args:
            raw: Include the service's own data of the response. Default: False. It is left out in any case where the
                type of the output hides its input.
        """
        response = self.response
        if self.hidden_tools:
            response = replace(response, message=hide_content(response.message, self.hidden_tools), grounding=None)
        return {
            "output": to_plain(self.output),
            "response": response.to_dict(raw=raw and not self.hidden_tools),
            "usage": self.usage.to_dict(),
            "attempts": [attempt.to_dict() for attempt in self.attempts],
            "repairs": list(self.repairs),
            "notes": list(self.notes),
        }

    def to_json(self, *, raw: bool = False) -> str:
        """Return the data of `to_dict` as JSON."""
        return json_text(self.to_dict(raw=raw))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], output_cls: TypeForm[S]) -> Result[S]:
        """Return the result from the data of `to_dict`.

        Args:
            data: The data.
            output_cls: The type of the output, which is validated again; `list[Album]` for parallel calls. The return
                value of a function, whose type is unknown, stays plain data.
        """
        return Result(
            from_plain(data["output"], output_cls),
            ChatResponse.from_dict(data["response"]),
            Usage.from_dict(data["usage"]),
            tuple([Attempt.from_dict(attempt) for attempt in data["attempts"]]),
            tuple(data["repairs"]),
            tuple(data.get("notes", ())),
        )


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """One call, ready to be made."""

    client: LLMClient
    request: ChatRequest
    validator: ResponseValidator
    max_attempts: int = 1
    fail_fast: bool = True
    verbose: bool = False
    repeated: bool = False  # an answer of the call was rejected before
    blocks: bool = False  # validation may block: in an event loop it runs in a worker thread

    def begin(self, call: CallState, backend: IOBackend) -> None:
        """Begin `call`, the state of this call."""

        def account() -> Account:
            return Account(
                f"{call.id} {', '.join(self.validator.tools)}",
                self.client.origin,
                self.request.messages,
                lambda: self.client.mode(self.request),
                self.request.tools,
                self.validator.hidden_tools,
            )

        call.begin(self.request.settings, backend.now, account, verbose=self.verbose)

    def with_retry_messages(self, response: ChatResponse, error: CallError | TryAgain) -> PreparedCall:
        """Return the call with the error appended to its messages, and one attempt less.

        After an answer without a call the model is not free to use tools of the provider any more.
        """
        messages = tuple(retry_messages(self.request.messages, response, error, hide_input=self.validator.hides_input))
        now = self.request.forces_now or (bool(self.request.server_tools) and not response.message.tool_calls)
        request = replace(self.request, messages=messages, forces_now=now)
        if (conversation := request.settings.conversation) is not None:
            # It has the request and its response now.
            stored = StoredResponse("", "", "", "", conversation)
            request = replace(request, continues=stored, seen=messages[: len(self.request.messages) + 1])
        return replace(self.with_one_attempt_less(), request=request)

    def may_force(self, error: Exception) -> bool:
        """Return True if the model answered without the call that it was free to make after its searches.

        That takes no attempt: the first request was for the search.
        """
        request = self.request
        return isinstance(error, NoToolCallError) and bool(request.server_tools) and not request.forces_now

    def with_one_attempt_less(self) -> PreparedCall:
        """Return the same call with one attempt less: the response was damaged, which the model did not cause."""
        return replace(self, max_attempts=self.max_attempts - 1, repeated=True)

    def build_output(self, values: Sequence[Any]) -> Any:
        """Return the output made of the values: all of them, or the only one."""
        return list(values) if self.request.parallel else values[0]


async def run_call(prepared: PreparedCall, backend: IOBackend, call: CallState) -> Result[Any]:
    """Make the call of this state and return its result, retrying invalid responses while attempts are left."""
    trace = call.trace
    prepared.begin(call, backend)
    try:
        while True:
            try:
                source = call.open(prepared.client.source(prepared.request, backend, call))
                response = await read_response(source, prepared.client.origin)
            except MalformedEvent as error:
                if prepared.max_attempts < 2:
                    raise
                notify_retry(call, error)
                prepared = prepared.with_one_attempt_less()
                trace.step("answered", "asked_again")
                continue
            trace.step("answered")
            forks: tuple[Trace, ...] = ()
            try:
                if trace.observed:
                    with validating(trace, response, parallel=prepared.request.parallel) as forks:
                        calls = await validate_response(prepared, response, call)
                else:
                    calls = await validate_response(prepared, response, call)
                if trace.state == "parsing_tool_calls":
                    trace.step("calls_parsed")
            except (*RETRYABLE, TryAgain) as error:
                prepared = retry_call(prepared, response, error, call)
                trace.step("asked_again")
                continue
            try:
                values = await run_parsed_calls(calls, backend, forks, call)
            except TryAgain as error:
                prepared = retry_call(prepared, response, error, call)
                trace.step("asked_again")
                continue
            if call.undecided:
                await call.accept()
            trace.step("tools_executed", "response_created", "returned")
            result = build_result(prepared, response, calls, values, call)
            call.end(output=result.output)
            return result
    except BaseException as error:
        call.reject()
        call.end(error)
        trace.step("failed" if isinstance(error, Exception) else "closed")
        raise


@contextmanager
def validating(trace: Trace, response: ChatResponse, *, parallel: bool) -> Generator[tuple[Trace, ...]]:
    """Trace the validation of the tool calls of `response` in this block: return a fork for each of parallel ones."""
    calls = response.message.tool_calls
    if calls and trace.state == "parsing_tool_calls":
        trace.step("calls_parsed")
    forks = trace.fork(len(calls)) if parallel else ()
    for fork in forks:
        fork.step("forked", "executed")
    try:
        yield forks
    except Exception as error:
        failed = {each.call_id for each in (error, *getattr(error, "others", ())) if isinstance(each, CallError)}
        for fork, call in zip(forks, calls, strict=False):
            fork.step(*(("failed",) if call.id in failed else ("validated", "closed")))
        raise
    for fork in forks:
        fork.step("validated")


async def validate_response(
    prepared: PreparedCall, response: ChatResponse, call: CallState, complete: CompleteValue | None = None
) -> list[ValidatedCall]:
    """Return the valid calls of a response; errors get the attempts of the call.

    `complete` returns the values that were validated while the response arrived.
    """
    validate = partial(
        prepared.validator.validate, response, complete, lambda: prepared.client.mode(prepared.request) == "prompted"
    )
    try:
        if not prepared.blocks:
            return validate()
        from ..async_support.thread_bridge import run_in_thread

        # A cancelled caller does not wait for a validator, which only reads.
        valid: list[ValidatedCall] = await run_in_thread(validate, abandon=True)
        return valid
    except CallError as error:
        call.mark_failed(error)
        raise


async def run_parsed_calls(
    calls: Sequence[ValidatedCall],
    backend: IOBackend,
    forks: Sequence[Trace] = (),
    call: CallState | None = None,
) -> list[Any]:
    """Run the tools of valid calls; return, in their order, the instance of a model or the return value of a function.

    `forks` are the traces of parallel tool calls; the tools have the hooks of the last request of `call`.
    """
    values = [read.value for read in calls if read.tool.output_type is not None]
    if len(values) == len(calls):
        if forks:
            _join(forks)
        return values
    hooks = None if call is None else call.last_hooks
    jobs = [ValueJob(read.call, read.tool, ParsedArguments(read.value), structured=True, hooks=hooks) for read in calls]
    try:
        await run_calls(jobs, concurrent=backend.concurrent)
    except BaseException as error:
        end = "failed" if isinstance(error, Exception) else "closed"
        for fork, job in zip(forks, jobs, strict=False):
            fork.step(*(("created", "wrapped", end) if job.done else (end,)))
        raise
    _join(forks)
    return [job.result for job in jobs]


def _join(forks: Sequence[Trace]) -> None:
    for fork in forks:
        fork.step("created", "wrapped")
    for fork in forks:
        fork.step("joined")


def build_result(
    prepared: PreparedCall,
    response: ChatResponse,
    calls: Sequence[ValidatedCall],
    values: Sequence[Any],
    call: CallState,
) -> Result[Any]:
    """Return the result of a call whose last response is `response`."""
    repairs = tuple([repair for read in calls for repair in read.repairs])
    if repairs:
        response = replace(response, repairs=response.repairs + repairs)
    notes = () if call.request is None else call.request.notes
    hidden = prepared.validator.hidden_tools
    return Result(prepared.build_output(values), response, call.usage, tuple(call.attempts), repairs, notes, hidden)


def retry_call(
    prepared: PreparedCall,
    response: ChatResponse,
    error: CallError | TryAgain,
    call: CallState,
) -> PreparedCall:
    """Return the call for the next attempt; raise `error` if no attempt is left."""
    call.mark_failed(error)
    final = _final(error, response)
    if prepared.repeated or prepared.max_attempts > 1:
        drop_general_advice(final)  # it is to allow more attempts, which this call does
    else:
        add_advice(final, 1)
    forces = prepared.may_force(error)
    if forces or prepared.max_attempts > 1:
        notify_retry(call, error)
        following = prepared.with_retry_messages(response, error)
        if forces:
            following = replace(following, max_attempts=prepared.max_attempts)
        added = following.request.messages[len(prepared.request.messages) :]
        call.show_messages(added)
        return following
    raise call.with_attempts(final) from final.__cause__


def notify_retry(call: CallState, error: Exception) -> None:
    """Notify the hooks that the model is asked again because of `error`."""
    if (hooks := call.last_hooks) is not None:
        hooks.emit("retry", error, 0.0)


def _final(error: CallError | TryAgain, response: ChatResponse) -> CallError:
    if isinstance(error, CallError):
        return error
    made = ValidationError(
        f"the answer was not accepted: {error}",
        provider=response.provider,
        model=response.model,
        request_id=response.request_id,
        response=response,
    )
    made.partial = getattr(error, "partial", None)
    made.__cause__ = error
    return made
