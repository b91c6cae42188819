"""One structured call, from messages to validated objects, asked again where that was allowed.

`PreparedCall` is one call, ready to be made; `whole` makes it and waits for the end. The same call as a stream is
`StructuredStream` (object_flow.py). Both read the answer with the same `ResponseValidator`, so both end alike.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from ..call_report import Account
from ..errors import (
    Attempt,
    CallError,
    MalformedEvent,
    TryAgain,
    ValidationError,
)
from ..events import ChatResponse
from ..llms.base import FunctionCallingLLM
from ..llms.request import ChatRequest
from ..llms.request_state import RequestState, start_call
from ..states import Trace
from ..tools.callable_tool import ParsedArguments
from ..tools.execution import ValueJob, run_calls
from ..transport.network import IOBackend
from ..usage import Usage
from .response_validation import REASKABLE, ResponseValidator, ValidatedCall, retry_messages

logger: Final = logging.getLogger("toolcast")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """What a call gave and how: `attempts` has one entry per request, `usage` is the sum over them."""

    output: T
    response: ChatResponse
    usage: Usage
    attempts: tuple[Attempt, ...]
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """One call, ready to be made."""

    llm: FunctionCallingLLM
    ask: ChatRequest
    reader: ResponseValidator
    max_attempts: int = 1
    fail_fast: bool = True
    verbose: bool = False

    def account(self, trace: Trace, backend: IOBackend) -> Account:
        """Return the account of the call, which begins now."""
        tools = ", ".join(self.reader.tools)
        return Account(
            f"{trace.call_id} {tools}", lambda: self.llm.origin, backend.now, self.ask.messages, verbose=self.verbose
        )

    def again(self, response: ChatResponse, error: CallError | TryAgain) -> PreparedCall:
        """The same call, asking again with what was wrong."""
        messages = tuple(retry_messages(self.ask.messages, response, error, hide_input=self.reader.hides_input))
        return replace(self, ask=replace(self.ask, messages=messages), max_attempts=self.max_attempts - 1)

    def once_more(self) -> PreparedCall:
        """Return the same call, with one attempt less: what came back was damaged, which is no fault of the model."""
        return replace(self, max_attempts=self.max_attempts - 1)

    def output(self, values: Sequence[Any]) -> Any:
        """What the caller gets for these values: all, or the one."""
        return list(values) if self.ask.parallel else values[0]


async def run_call(recipe: PreparedCall, backend: IOBackend, trace: Trace) -> Result[Any]:
    """The result of one call, asked again while its attempts last."""
    call = start_call(recipe.ask.settings, backend)
    account = recipe.account(trace, backend)
    try:
        while True:
            try:
                response = await recipe.llm.answer(recipe.ask, backend, call)
            except MalformedEvent:
                if recipe.max_attempts < 2:
                    raise
                recipe = recipe.once_more()
                trace.step("answered", "asked_again")
                continue
            trace.step("answered")
            try:
                reads = read_answer(recipe, response, call)
                trace.step("calls_parsed")
            except (*REASKABLE, TryAgain) as error:
                recipe = retry_call(recipe, response, error, call)
                trace.step("asked_again")
                continue
            try:
                values = await run_parsed_calls(reads, backend, trace if recipe.ask.parallel else None)
            except TryAgain as error:
                recipe = retry_call(recipe, response, error, call)
                trace.step("asked_again")
                continue
            trace.step("tools_executed", "response_created", "returned")
            result = build_result(recipe, response, reads, values, call)
            account.end(call.usage, call.attempts, output=result.output)
            return result
    except BaseException as error:
        account.end(call.usage, call.attempts, error)
        trace.step("failed" if isinstance(error, Exception) else "closed")
        raise


def read_answer(recipe: PreparedCall, response: ChatResponse, call: RequestState) -> list[ValidatedCall]:
    """The valid calls of an answer. An error about it carries the attempts of the call."""
    try:
        return recipe.reader.read(response)
    except CallError as error:
        call.mark_failed(error)
        raise


async def run_parsed_calls(reads: Sequence[ValidatedCall], backend: IOBackend, trace: Trace | None = None) -> list[Any]:
    """Return the values of valid calls, in their order: of a model the instance, of a function what it returned.

    `trace`: of a call whose answer may hold several tool calls, each of which has a trace of its own.
    """
    forks = trace.fork(len(reads)) if trace is not None else ()
    for fork in forks:
        fork.step("forked", "executed", "validated")
    if all(read.tool.output_type is not None for read in reads):
        _join(forks)
        return [read.value for read in reads]
    jobs = [ValueJob(read.call, read.tool, ParsedArguments(read.value), structured=True) for read in reads]
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
    recipe: PreparedCall,
    response: ChatResponse,
    reads: Sequence[ValidatedCall],
    values: Sequence[Any],
    call: RequestState,
) -> Result[Any]:
    """The result of a call whose last answer was `response`."""
    repairs = tuple([repair for read in reads for repair in read.repairs])
    if repairs:
        response = replace(response, repairs=response.repairs + repairs)
    return Result(recipe.output(values), response, call.usage, tuple(call.attempts), repairs)


def retry_call(
    recipe: PreparedCall, response: ChatResponse, error: CallError | TryAgain, call: RequestState
) -> PreparedCall:
    """The recipe that asks again; raises `error` where no attempt is left."""
    call.mark_failed(error)
    if recipe.max_attempts > 1:
        return recipe.again(response, error)
    final = _final(error, response)
    raise call.with_attempts(final) from final.__cause__


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
