"""PEI assessment: an evaluator model reads a run's history as its own and reports a level of experience.

The history is rebuilt from the log (run_history.py), the scale's text is the last message (scale.py), and the
temperature is 0.1. The model is offered one tool, `PEIReport`, in the output mode that suits it best, so that the level
comes as a number; an answer in text is parsed as text (rating_text.py). A model without tools, or whose service refuses
them, is asked for text alone. A level that is not on the scale is asked for once more, and then there is none: a wrong
level is worse.

The I/O is written once, as coroutines; `assess` drives them without an event loop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypedDict

from pydantic import BaseModel, BeforeValidator, Field
from typing_extensions import Unpack

from ...agents.engine.history import estimate_tokens
from ...async_support import sync_driver
from ...errors import BadRequest, CallError, ContextTooLong, NoToolCallError, UnknownToolError, ValidationError
from ...events import ChatResponse
from ...llms.client import client_of
from ...llms.function_calling_llm import FunctionCallingLLM
from ...llms.model_registry import choose_llm
from ...llms.request import ChatRequest
from ...messages import Message, assistant, user
from ...parsing.thoughts import without_thoughts
from ...structured.response_validation import ResponseValidator, retry_messages
from ...text.reprs import safe_repr
from ...tools.callable_tool import CallableTool
from ...transport.network import IOBackend
from ...values.settings import NOTHING_SET, Settings
from .agreement import PEIResult
from .rating_text import rating_in
from .run_history import history_of
from .scale import PEI_SCALE, PEIScale

TEMPERATURE: Final = 0.1
_SMALLEST_WINDOW: Final = 4_096  # Ollama's default on a machine with little memory
_ANSWER: Final = 1_024


class AssessmentOptions(TypedDict, total=False):
    """Options of `PEIAssessment`."""

    scale: PEIScale
    settings: Settings | None
    in_words: bool


def assess(
    run_log: str | PathLike[str],
    evaluator: FunctionCallingLLM | str,
    **options: Unpack[AssessmentOptions],
) -> PEIResult:
    """Return the level that `evaluator` reports for a run.

    Args:
        run_log: The log of the run.
        evaluator: An LLM, or a name as `toolcast.llms.model_registry.chosen` takes it.
        options: `scale`, the scale to rate on; `settings`, which take precedence over the temperature of 0.1;
            `in_words`, to offer no tool and no format, and parse the text of the answer.

    Raises:
        LogError: If the log cannot be read.
        ContextTooLong: If the history does not fit the evaluator.
        LLMError: Or any other error that ends the call.
    """
    assessment = PEIAssessment(run_log, **options)
    if not isinstance(evaluator, str):
        return assessment.rated_by(evaluator)
    with choose_llm(evaluator) as llm:
        return assessment.rated_by(llm, evaluator)


async def aassess(
    run_log: str | PathLike[str],
    evaluator: FunctionCallingLLM | str,
    **options: Unpack[AssessmentOptions],
) -> PEIResult:
    """Return the level that `evaluator` reports for a run. See `assess`."""
    from anyio import to_thread

    assessment = await to_thread.run_sync(partial(PEIAssessment, run_log, **options))
    if not isinstance(evaluator, str):
        return await assessment.arated_by(evaluator)
    async with choose_llm(evaluator) as llm:
        return await assessment.arated_by(llm, evaluator)


class PEIAssessment:
    """An assessment of one run that can be repeated with any evaluators: its log is read once.

    `run_id` is the name of the log's file without its ending; `messages` are sent to the evaluators.
    """

    def __init__(
        self,
        run_log: str | PathLike[str],
        *,
        scale: PEIScale = PEI_SCALE,
        settings: Settings | None = None,
        in_words: bool = False,
    ) -> None:
        self.run_id: str = Path(run_log).stem
        self.messages: tuple[Message, ...] = (*history_of(run_log), user(scale.text))
        self._settings = settings
        self._in_words = in_words

    @safe_repr
    def __repr__(self) -> str:
        return f"PEIAssessment({self.run_id!r}, {len(self.messages)} messages)"

    def rated_by(self, evaluator: FunctionCallingLLM, name: str | None = None) -> PEIResult:
        """Return the level that `evaluator` reports. `name` replaces its model's name in the result."""
        return sync_driver.run(self._rated(evaluator, name, client_of(evaluator).sync_backend()))

    async def arated_by(self, evaluator: FunctionCallingLLM, name: str | None = None) -> PEIResult:
        """Return the level that `evaluator` reports. See `rated_by`."""
        return await self._rated(evaluator, name, client_of(evaluator).async_backend())

    async def _rated(self, llm: FunctionCallingLLM, name: str | None, backend: IOBackend) -> PEIResult:
        try:
            answer = await self._request_answer(llm, backend)
        except ContextTooLong as error:
            raise self._too_long(error) from error
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return PEIResult(self.run_id, name or llm.metadata.model_name, answer.rating, answer.response, now)

    async def _request_answer(self, llm: FunctionCallingLLM, backend: IOBackend) -> _Answer:
        request = _build_request(llm, self.messages, self._settings)
        if self._in_words:
            request = _without_tool(request)
        try:
            return await _ask_twice(llm, request, backend)
        except BadRequest as error:
            if not (request.tools and _REFUSES_TOOLS.search(error.message)):
                raise
        return await _ask_twice(llm, _without_tool(request), backend)

    def _too_long(self, error: ContextTooLong) -> ContextTooLong:
        tokens = estimate_tokens(self.messages)
        return ContextTooLong(
            f"the history of the run {self.run_id}, about {tokens:,} tokens, does not fit: choose an evaluator with a "
            f"larger context window. It says: {error.message}",
            provider=error.provider,
            model=error.model,
            request_id=error.request_id,
            status=error.status,
        )


def _reject_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


class PEIReport(BaseModel):
    """Report your level on the scale: the number of the highest statement that is clearly true."""

    explanation: str = Field(description="in a few sentences: what speaks for the level, and what against it")
    rating: Annotated[int, BeforeValidator(_reject_bool)] = Field(ge=1, le=10, description="the level, from 1 to 10")


_TOOL: Final = CallableTool.from_model(PEIReport)
_READER: Final = ResponseValidator({_TOOL.name: _TOOL})
_NO_LEVEL: Final = (ValidationError, UnknownToolError)
_OBJECT: Final = re.compile(r'"rating"\s*:')
_RATING: Final = re.compile(r'"rating"\s*:([^,}\n]{1,40})[,}\n]')  # and its end: the 1 of a 10 that was cut off is no 1
_REFUSES_TOOLS: Final = re.compile(r"tool|function|schema|format", re.IGNORECASE)


class _Answer(NamedTuple):
    """The rating of an evaluator, and the text of its answer."""

    rating: int | None
    response: str


def _build_request(llm: FunctionCallingLLM, messages: Sequence[Message], settings: Settings | None) -> ChatRequest:
    """Build the request: with the tool, unless the model would only be prompted for it."""
    merged = client_of(llm).merge_settings(settings)
    extra = merged.extra or {}
    if llm.metadata.provider == "ollama":
        extra = _unshortened(messages, extra, merged.num_ctx)
    settings = (settings or NOTHING_SET).over(Settings(temperature=TEMPERATURE)).with_(extra=extra or None)
    request = client_of(llm).build_request(messages, (_TOOL,), _TOOL.name, settings, parallel=False)
    return _without_tool(request) if client_of(llm).mode(request) == "prompted" else request


def _without_tool(request: ChatRequest) -> ChatRequest:
    return replace(request, tools=(), tool_choice=None)


def _unshortened(messages: Sequence[Message], extra: Mapping[str, Any], window: int | None) -> dict[str, Any]:
    """Return `extra` with options that keep Ollama from dropping the oldest messages silently, its default.

    It must report an error if they do not fit, and use a larger window if the smallest one may be too small, unless the
    settings have a `window`.
    """
    needed = 2 * estimate_tokens(messages) + _ANSWER
    options: Mapping[str, Any] = {"num_ctx": needed} if window is None and needed > _SMALLEST_WINDOW else {}
    options = {**options, **extra.get("options", {})}
    return {"truncate": False, "shift": False, **extra} | ({"options": options} if options else {})


async def _ask_twice(llm: FunctionCallingLLM, request: ChatRequest, backend: IOBackend) -> _Answer:
    """Return the evaluator's answer; ask once more if it called a tool without a valid level."""
    with client_of(llm).reported_call("assessment", request.settings, backend) as call:
        response = await client_of(llm).answer(request, backend, call)
        try:
            answer = _parse_answer(response)
        except _NO_LEVEL as error:
            call.reject()
            request = replace(request, messages=tuple(retry_messages(request.messages, response, error)))
        else:
            await call.accept()
            return answer
        response = await client_of(llm).answer(request, backend, call)
        try:
            answer = _parse_answer(response)
        except _NO_LEVEL:
            return _Answer(_level_in(_answer_text(response)), _answer_text(response))
        await call.accept()
        return answer


def _parse_answer(response: ChatResponse) -> _Answer:
    """Parse an answer: the tool call, an object in its text, or else the text."""
    called = bool(response.message.tool_calls)
    words = without_thoughts(response.text)
    try:
        [read] = _READER.validate(response if called else replace(response, message=assistant(words)))
    except NoToolCallError:
        return _Answer(_level_in(words) if _OBJECT.search(words) else rating_in(words), response.text)
    except _NO_LEVEL:
        raise
    except CallError:  # it was cut off, or the service took it back
        return _Answer(None, _answer_text(response))
    report: PEIReport = read.value
    report_text = f"Rating: {report.rating}\n\n{report.explanation}" if called else ""
    return _Answer(report.rating, "\n\n".join(filter(None, (response.text, report_text))))


def _level_in(text: str) -> int | None:
    """Return the level of an object that is no valid report, without explanation or quotes; its text is not parsed."""
    levels = {rating_in(f"rating: {value}") for value in _RATING.findall(text)}
    return levels.pop() if len(levels) == 1 else None


def _answer_text(response: ChatResponse) -> str:
    """Return the text of an answer, with its calls as they were made."""
    calls = [f"{call.name}({call.arguments})" for call in response.message.tool_calls]
    return "\n\n".join(filter(None, (response.text, *calls)))
