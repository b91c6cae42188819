"""calls.py: what a call that did not go well leaves behind - attempts, usage, who is to blame; on every face."""

from __future__ import annotations

from typing import Any

import pytest

import toolcast
from albums import SEA, SHORT, Album, call
from chunks import delta, sse
from faces import Face
from toolcast import (
    CallError,
    Finish,
    MalformedEvent,
    NoToolCallError,
    OpenAI,
    OutputTruncated,
    Refused,
    TextDelta,
    ToolOrchestratingLLM,
    TryAgain,
    Usage,
    ValidationError,
)
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM

REFUSAL = [TextDelta("Sorry"), Finish("refusal")]
CUT = call('{"title": "Sea of', truncated=True)
BAD = call('{"title": 1}')


def maker(*answers: Any, output: Any = Album, **options: Any) -> Any:
    return ToolOrchestratingLLM(output, "x", ScriptedLLM(*answers), **options)


def failure(face: Face, make: Any, streamed: bool) -> Any:
    """The error that a call ends with."""
    if streamed:
        return face.stream(make).error
    with pytest.raises(toolcast.ToolcastError) as caught:
        face.call(make)
    return caught.value


STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@STREAMED
@pytest.mark.parametrize(
    ("answer", "kind"),
    [("no", NoToolCallError), (BAD, ValidationError), (CUT, OutputTruncated), (REFUSAL, Refused)],
    ids=["words", "invalid", "cut", "refused"],
)
def test_every_error_of_an_answer_carries_the_attempts(
    face: Face, answer: Any, kind: type[CallError], streamed: bool
) -> None:
    error = failure(face, maker(answer), streamed)
    assert type(error) is kind
    assert [attempt.error for attempt in error.attempts] == [error]
    assert error.attempts[0].number == 1
    assert error.response is not None
    assert (error.provider, error.model) == ("scripted", "scripted")


@STREAMED
def test_an_error_after_asking_again_carries_both_attempts(face: Face, streamed: bool) -> None:
    error = failure(face, maker("no", REFUSAL, max_attempts=2), streamed)
    assert [type(attempt.error) for attempt in error.attempts] == [NoToolCallError, Refused]


def test_damage_to_an_answer_in_words_carries_the_attempt(face: Face) -> None:
    text = SEA.model_dump_json()
    pieces = sse(*(delta(content=text[at : at + 8]) for at in range(0, len(text), 8)), delta("stop"))
    pieces[4] = pieces[4][:40] + b"\n\n"
    make = ToolOrchestratingLLM(Album, "x", OpenAI("m-1", api_key="k", network=ReplayNetwork(Recorded(pieces))))
    error = face.stream(make).error
    assert isinstance(error, MalformedEvent)
    assert [attempt.error for attempt in error.attempts] == [error]


@STREAMED
def test_an_error_of_the_callers_own_tool_is_not_the_models(face: Face, streamed: bool) -> None:
    """A tool that makes a call of its own may raise an error of this library: it ran once, and the error is its own."""
    runs: list[int] = []
    inner = NoToolCallError("the inner call")

    def ask_another(a: int) -> int:
        runs.append(a)
        raise inner

    make = maker({"a": 1}, {"a": 2}, output=ask_another, max_attempts=2)
    assert failure(face, make, streamed) is inner
    assert runs == [1]
    assert inner.attempts == ()
    assert "ask_another" in "".join(inner.__notes__)


@STREAMED
def test_a_tool_that_asks_for_another_try_to_the_end(face: Face, streamed: bool) -> None:
    def never(a: int) -> int:
        raise TryAgain("not yet")

    error = failure(face, maker({"a": 1}, {"a": 2}, output=never, max_attempts=2), streamed)
    assert isinstance(error, ValidationError)
    assert "not yet" in str(error)
    assert isinstance(error.__cause__, TryAgain)
    assert len(error.attempts) == 2
    assert error.errors() == []


@STREAMED
def test_the_last_of_several_errors_keeps_its_cause(face: Face, streamed: bool) -> None:
    error = failure(face, maker(BAD, BAD, max_attempts=2), streamed)
    assert isinstance(error, ValidationError)
    assert error.__cause__ is not None
    assert error.error_count() == len(error.errors()) > 0


def test_usage_is_the_sum_over_all_attempts(face: Face) -> None:
    result = face.run(maker("no", BAD, SEA, max_attempts=3))
    assert result.output == SEA
    assert result.usage == Usage(30, 15)
    assert [attempt.usage for attempt in result.attempts] == [Usage(10, 5)] * 3
    stream = maker("no", BAD, SEA, max_attempts=3).with_(fail_fast=False).stream()
    assert stream.final() == SEA
    assert stream.usage == Usage(30, 15)


def test_several_functions_in_parallel_run_in_order(face: Face) -> None:
    ran: list[int] = []

    def note(a: int) -> int:
        ran.append(a)
        return -a

    calls = [call('{"a": 1}', "note"), call('{"a": 2}', "note", id="call_2")]
    make = maker(calls, calls, output=note, allow_parallel_tool_calls=True)
    assert face.call(make) == [-1, -2]
    assert face.stream(make).final == [-1, -2]
    assert ran == [1, 2, 1, 2]


def test_nothing_runs_when_one_of_several_calls_is_bad(face: Face) -> None:
    ran: list[int] = []
    calls = [call('{"a": 1}', "note"), call('{"a": "x"}', "note", id="call_2")]

    def note(a: int) -> None:
        ran.append(a)

    with pytest.raises(ValidationError):
        face.call(maker(calls, output=note, allow_parallel_tool_calls=True))
    assert ran == []


def test_an_interrupted_call_is_closed_and_not_an_error() -> None:
    heard: list[str] = []
    make = maker(KeyboardInterrupt(), SEA, observer=lambda _, state: heard.append(state))
    with pytest.raises(KeyboardInterrupt):
        make()
    assert heard[-1] == "closed"
    assert make() == SEA


def test_parse_runs_the_tool_and_gives_lists_where_they_were_asked_for() -> None:
    response = ScriptedLLM([call(SEA), call(SHORT, id="2")]).chat("x", tools=[Album])
    assert maker().parse(response) == SEA
    assert maker(allow_parallel_tool_calls=True).parse(response) == [SEA, SHORT]


def test_parse_takes_the_data_of_a_body() -> None:
    make = ToolOrchestratingLLM(Album, "x", OpenAI("m-1", api_key="k", network=ReplayNetwork()))
    function = {"name": "Album", "arguments": SHORT.model_dump_json()}
    message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    assert make.parse({"choices": [{"message": message, "finish_reason": "tool_calls"}]}) == SHORT


# -- examples and LLMs that do not fit ----------------------------------------------------------------------------


def test_a_few_shot_list_becomes_several_calls_where_several_are_allowed() -> None:
    llm = ScriptedLLM(SEA)
    prompt = [("user", "two, please"), ("assistant", [SEA, SHORT]), ("user", "again")]
    ToolOrchestratingLLM(Album, prompt, llm, allow_parallel_tool_calls=True)()
    shown = llm.requests[0].messages[1].tool_calls
    assert [Album.model_validate_json(part.arguments) for part in shown] == [SEA, SHORT]
    assert len({part.id for part in shown}) == 2


def test_an_example_that_is_no_output_is_refused() -> None:
    llm = ScriptedLLM(SEA)
    make = ToolOrchestratingLLM(Album, [("user", "x"), ("assistant", "{example}")], llm)
    for example in ({"title": 1}, [SEA, SHORT], 7):
        with pytest.raises(toolcast.PromptError, match=f"an example of type {type(example).__name__} does not fit"):
            make(example=example)
    assert llm.requests == []


@pytest.mark.parametrize("llm", [7, object(), ScriptedLLM])
def test_what_is_no_llm_is_refused_by_its_type(llm: Any) -> None:
    with pytest.raises(toolcast.UnsupportedLLMError, match=f"not {type(llm).__name__}"):
        ToolOrchestratingLLM(Album, "x", llm)
