"""Failed calls: attempts, usage and the attributes of errors, in the sync and the async API."""

from __future__ import annotations

import json
from threading import Barrier, Event
from typing import Any

import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint

import toolcast
from support.albums import SEA, SHORT, Album, call
from support.chunks import delta, sse
from support.sync_and_async import API
from toolcast import (
    CallableTool,
    CallError,
    OpenAI,
    ToolContext,
    ToolOrchestratingLLM,
    TryAgain,
    Usage,
    ValidationError,
)
from toolcast.errors import MalformedEvent, NoToolCallError, OutputTruncated, Refused, ToolTimeout
from toolcast.events import Finish, TextDelta
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM

REFUSAL = [TextDelta("Sorry"), Finish("refusal")]
CUT = call('{"title": "Sea of', truncated=True)
BAD = call('{"title": 1}')


def maker(*answers: Any, output: Any = Album, **options: Any) -> Any:
    return ToolOrchestratingLLM(output, "x", ScriptedLLM(*answers), **options)


def failure(api: API, make: Any, streamed: bool) -> Any:
    """The error that a call ends with."""
    if streamed:
        return api.stream(make).error
    with pytest.raises(toolcast.ToolcastError) as caught:
        api.call(make)
    return caught.value


STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@STREAMED
@pytest.mark.parametrize(
    ("answer", "kind"),
    [("no", NoToolCallError), (BAD, ValidationError), (CUT, OutputTruncated), (REFUSAL, Refused)],
    ids=["words", "invalid", "cut", "refused"],
)
def test_every_error_of_an_answer_carries_the_attempts(
    api: API, answer: Any, kind: type[CallError], streamed: bool
) -> None:
    error = failure(api, maker(answer), streamed)
    assert type(error) is kind
    assert [attempt.error for attempt in error.attempts] == [error]
    assert error.attempts[0].number == 1
    assert error.response is not None
    assert (error.provider, error.model) == ("scripted", "scripted")


@STREAMED
def test_an_error_after_asking_again_carries_both_attempts(api: API, streamed: bool) -> None:
    error = failure(api, maker("no", REFUSAL, max_attempts=2), streamed)
    assert [type(attempt.error) for attempt in error.attempts] == [NoToolCallError, Refused]


def test_damage_to_an_answer_in_words_carries_the_attempt(api: API) -> None:
    text = SEA.model_dump_json()
    pieces = sse(*(delta(content=text[at : at + 8]) for at in range(0, len(text), 8)), delta("stop"))
    pieces[4] = pieces[4][:40] + b"\n\n"
    make = ToolOrchestratingLLM(
        Album, "x", OpenAI("m-1", api="chat", api_key="k", network=ReplayNetwork(Recorded(pieces)))
    )
    error = api.stream(make).error
    assert isinstance(error, MalformedEvent)
    assert [attempt.error for attempt in error.attempts] == [error]


@STREAMED
def test_a_damaged_answer_is_asked_for_again(api: API, streamed: bool) -> None:
    make = maker(MalformedEvent("damaged"), SEA, max_attempts=2)
    result = api.stream(make).final if streamed else api.run(make).output
    assert result == SEA
    error = failure(api, maker(*[MalformedEvent("damaged")] * 2, max_attempts=2), streamed)
    assert [type(attempt.error) for attempt in error.attempts] == [MalformedEvent, MalformedEvent]
    assert isinstance(failure(api, maker(MalformedEvent("damaged"), SEA), streamed), MalformedEvent)


@STREAMED
def test_an_error_of_the_callers_own_tool_is_not_the_models(api: API, streamed: bool) -> None:
    """A tool that makes a call of its own may raise an error of this library: it ran once, and the error is its own."""
    runs: list[int] = []
    inner = NoToolCallError("the inner call")

    def ask_another(a: int) -> int:
        runs.append(a)
        raise inner

    make = maker({"a": 1}, {"a": 2}, output=ask_another, max_attempts=2)
    assert failure(api, make, streamed) is inner
    assert runs == [1]
    assert inner.attempts == ()
    assert "ask_another" in "".join(inner.__notes__)


@STREAMED
def test_a_tool_that_asks_for_another_try_to_the_end(api: API, streamed: bool) -> None:
    def never(a: int) -> int:
        raise TryAgain("not yet")

    error = failure(api, maker({"a": 1}, {"a": 2}, output=never, max_attempts=2), streamed)
    assert isinstance(error, ValidationError)
    assert "not yet" in str(error)
    assert isinstance(error.__cause__, TryAgain)
    assert len(error.attempts) == 2
    assert error.errors() == []


@STREAMED
def test_the_last_of_several_errors_keeps_its_cause(api: API, streamed: bool) -> None:
    error = failure(api, maker(BAD, BAD, max_attempts=2), streamed)
    assert isinstance(error, ValidationError)
    assert error.__cause__ is not None
    assert error.error_count() == len(error.errors()) > 0


def test_usage_is_the_sum_over_all_attempts(api: API) -> None:
    result = api.run(maker("no", BAD, SEA, max_attempts=3))
    assert result.output == SEA
    assert result.usage == Usage(30, 15)
    assert [attempt.usage for attempt in result.attempts] == [Usage(10, 5)] * 3
    stream = maker("no", BAD, SEA, max_attempts=3).with_(fail_fast=False).stream()
    assert stream.final() == SEA
    assert stream.usage == Usage(30, 15)


def test_several_functions_give_their_results_in_order(api: API) -> None:
    ran: list[int] = []

    def note(a: int) -> int:
        ran.append(a)
        return -a

    calls = [call('{"a": 1}', "note"), call('{"a": 2}', "note", id="call_2")]
    make = maker(calls, calls, output=note, allow_parallel_tool_calls=True)
    assert api.call(make) == [-1, -2]
    assert api.stream(make).final == [-1, -2]
    assert sorted(ran) == [1, 1, 2, 2]


THREE = [call(f'{{"a": {number}}}', "note", id=f"call_{number}") for number in (1, 2, 3)]
WAYS = pytest.mark.parametrize("way", ["call", "stream", "predict"])
BUFFERED_WITHIN = 30.0


def outputs_of(api: API, way: str, tool: Any, calls: Any = THREE, **options: Any) -> Any:
    """What the three calls of `tool` in one answer give."""
    llm = ScriptedLLM(calls)
    if way == "predict":
        answer = api.method(llm, "predict_and_call", [tool], "x", allow_parallel_tool_calls=True)
        return answer.parse_tool_outputs(allow_parallel_tool_calls=True)
    make = ToolOrchestratingLLM(tool, "x", llm, allow_parallel_tool_calls=True, **options)
    return api.call(make) if way == "call" else api.stream(make).final


@WAYS
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_functions_run_at_the_same_time(api: API, way: str, kind: str) -> None:
    """Each waits for the others: one after the other they would never end."""
    all_here = Barrier(3, timeout=BUFFERED_WITHIN)

    def note(a: int) -> int:
        all_here.wait()
        return -a

    async def later(a: int) -> int:
        return await to_thread.run_sync(note, a)

    tool = CallableTool.from_function(note if kind == "sync" else later, name="note")
    assert outputs_of(api, way, tool) == [-1, -2, -3]


@WAYS
def test_a_tool_that_may_not_run_beside_others_runs_alone(api: API, way: str) -> None:
    log: list[tuple[str, int]] = []

    async def note(a: int) -> int:
        log.append(("begin", a))
        await checkpoint()
        log.append(("end", a))
        return -a

    tool = CallableTool.from_function(note).with_(parallel=False)
    assert outputs_of(api, way, tool) == [-1, -2, -3]
    assert log == [(step, number) for number in (1, 2, 3) for step in ("begin", "end")]


@pytest.mark.fault(128)
@WAYS
@pytest.mark.parametrize("parallel", [None, False])
def test_when_one_function_fails_the_others_are_not_lost(api: API, way: str, parallel: bool | None) -> None:
    ran: list[int] = []

    def note(a: int) -> int:
        ran.append(a)
        if a == 2:
            raise OSError("disk full")
        return -a

    tool = CallableTool.from_function(note).with_(parallel=parallel)
    with pytest.raises(OSError, match="disk full") as caught:
        outputs_of(api, way, tool)
    error: Any = caught.value
    assert sorted(ran) == [1, 2, 3]
    assert error.partial == [-1, -3]
    assert (error.call_id, error.tool_name, error.arguments) == ("call_2", "note", '{"a": 2}')
    assert error.__notes__ == ["raised by the tool 'note'"]


@WAYS
def test_of_several_functions_that_fail_the_first_is_raised_and_notes_the_others(api: API, way: str) -> None:
    def note(a: int) -> int:
        if a > 1:
            raise OSError(f"disk {a} full")
        return -a

    with pytest.raises(OSError, match="disk 2 full") as caught:
        outputs_of(api, way, note)
    assert caught.value.__notes__[1:] == ["the call 'call_3' of the tool 'note' failed too: OSError: disk 3 full"]


@WAYS
def test_an_error_of_the_arguments_names_the_call(api: API, way: str) -> None:
    calls = [call(SEA), call('{"title": 1}', id="call_2"), call(SHORT, id="call_3")]
    with pytest.raises(ValidationError) as caught:
        outputs_of(api, way, Album, calls)
    error = caught.value
    assert (error.call_id, error.tool_name, error.arguments) == ("call_2", "Album", '{"title": 1}')
    if way != "stream":  # which stops where the arguments cannot become valid any more
        assert error.partial == [SEA, SHORT]


@STREAMED
def test_after_a_function_asked_for_another_try_no_further_group_begins(api: API, streamed: bool) -> None:
    ran: list[int] = []

    def note(a: int) -> int:
        ran.append(a)
        if a == 2:
            raise TryAgain("not two")
        return -a

    tool = CallableTool.from_function(note).with_(parallel=False)
    error = failure(api, maker(THREE, output=tool, allow_parallel_tool_calls=True), streamed)
    assert (ran, error.partial) == ([1, 2], [-1])
    assert isinstance(error.__cause__, TryAgain)


def test_each_call_that_asks_for_another_try_gets_its_reason(api: API) -> None:
    def note(a: int) -> int:
        if a > 1:
            raise TryAgain(f"not {a}")
        return -a

    llm = ScriptedLLM(THREE, THREE[:1])
    assert api.call(ToolOrchestratingLLM(note, "x", llm, allow_parallel_tool_calls=True, max_attempts=2)) == [-1]
    results = [part for message in llm.requests[1].messages for part in message.parts if part.type == "tool_result"]
    assert [result.content for result in results] == ["Not used, call again.", "not 2", "not 3"]


def test_another_failure_is_not_hidden_by_asking_again(api: API) -> None:
    def note(a: int) -> int:
        raise OSError("disk full") if a == 3 else TryAgain("again")

    with pytest.raises(OSError, match="disk full"):
        api.call(maker(THREE, SEA, output=note, allow_parallel_tool_calls=True, max_attempts=2))


def test_attributes_of_an_exception_are_not_overwritten(api: API) -> None:
    class Mine(Exception):
        arguments = "mine"

    class Closed(Exception):
        def __setattr__(self, name: str, value: object) -> None:
            if name != "__traceback__":  # which contextlib sets
                raise AttributeError(name)
            super().__setattr__(name, value)

    same = Mine()

    def note(a: int) -> int:
        raise Closed if a > 2 else same

    for number in (1, 2):
        with pytest.raises(Mine) as caught:
            api.call(maker(THREE[number - 1], output=note))
        assert vars(caught.value)["call_id"] == f"call_{number}"
        assert caught.value.arguments == "mine"
        assert not hasattr(caught.value, "partial")
    four = [THREE[2], call('{"a": 4}', "note", id="call_4")]
    with pytest.raises(Closed):
        api.call(maker(four, output=note, allow_parallel_tool_calls=True))


def test_the_time_limit_of_a_function_holds(api: API) -> None:
    over = Event()

    def note(a: int) -> int:
        over.wait(BUFFERED_WITHIN)
        return a

    tool = CallableTool.from_function(note).with_(timeout=0.01)
    try:
        with pytest.raises(ToolTimeout, match=r"note took longer than 0\.01 seconds"):
            api.call(maker({"a": 1}, output=tool))
    finally:
        over.set()


FORK = ["execute_tool", "validate_tool", "create_model"]
JOIN = ["wrap_output", "collect_outputs"]


@pytest.mark.parametrize("way", ["call", "stream"])
@pytest.mark.parametrize("output", ["model", "function"])
def test_each_of_several_tool_calls_has_states_of_its_own(api: API, way: str, output: str) -> None:
    observed: list[tuple[str, str]] = []

    def note(a: int) -> int:
        return a

    calls = THREE[:2] if output == "function" else [call(SEA), call(SHORT, id="2")]
    outputs_of(
        api,
        way,
        note if output == "function" else Album,
        calls,
        observer=lambda call_id, state: observed.append((call_id, state)),
    )
    del observed[:2]  # of the object itself
    ids = [call_id for call_id, _ in observed]
    own = ids[0]
    for number in (1, 2):
        assert [state for call_id, state in observed if call_id == f"{own}.{number}"] == [
            *FORK,
            *JOIN,
            "executing_tools",
        ]
    # All join before the call goes on.
    last = max(at for at, call_id in enumerate(ids) if call_id != own)
    assert observed[last + 1] == (own, "creating_response" if way == "call" else "ready")


@pytest.mark.parametrize(("raised", "end"), [(OSError, "error"), (KeyboardInterrupt, "closed")])
def test_the_states_of_a_tool_call_that_fails_and_of_one_that_does_not(raised: type[BaseException], end: str) -> None:
    observed: list[tuple[str, str]] = []

    def note(a: int) -> int:
        if a == 2:
            raise raised
        return a

    make = maker(
        THREE[:2],
        output=CallableTool.from_function(note).with_(parallel=False),
        allow_parallel_tool_calls=True,
        observer=lambda call_id, state: observed.append((call_id, state)),
    )
    with pytest.raises(raised):
        make()
    first, second = ([state for call_id, state in observed if call_id.endswith(number)] for number in (".1", ".2"))
    assert first == [*FORK, *JOIN, end]
    assert second == [*FORK, end]


def test_the_states_of_invalid_arguments(api: API) -> None:
    """They are validated where the tools are executed, each where its own call is."""
    observed: list[tuple[str, str]] = []
    make = maker(
        [call(SEA), call('{"title": 1}', id="2")],
        allow_parallel_tool_calls=True,
        observer=lambda call_id, state: observed.append((call_id, state)),
    )
    with pytest.raises(ValidationError):
        api.call(make)
    first, second = ([state for call_id, state in observed if call_id.endswith(number)] for number in (".1", ".2"))
    assert first == [*FORK, "closed"]
    assert second == [*FORK[:-1], "error"]
    own = observed[2][0]
    assert [state for call_id, state in observed if call_id == own][-3:] == [
        "parsing_tool_calls",
        "executing_tools",
        "error",
    ]


def test_nothing_runs_when_one_of_several_calls_is_bad(api: API) -> None:
    ran: list[int] = []
    calls = [call('{"a": 1}', "note"), call('{"a": "x"}', "note", id="call_2")]

    def note(a: int) -> None:
        ran.append(a)

    with pytest.raises(ValidationError):
        api.call(maker(calls, output=note, allow_parallel_tool_calls=True))
    assert ran == []


def test_an_interrupted_call_is_closed_and_not_an_error() -> None:
    observed: list[str] = []
    make = maker(KeyboardInterrupt(), SEA, observer=lambda _, state: observed.append(state))
    with pytest.raises(KeyboardInterrupt):
        make()
    assert observed[-1] == "closed"
    assert make() == SEA


def test_parse_runs_the_tool_and_gives_lists_where_they_were_asked_for() -> None:
    response = ScriptedLLM([call(SEA), call(SHORT, id="2")]).chat("x", tools=[Album])
    assert maker().parse(response) == SEA
    assert maker(allow_parallel_tool_calls=True).parse(response) == [SEA, SHORT]


def test_parse_takes_the_data_of_a_body() -> None:
    make = ToolOrchestratingLLM(Album, "x", OpenAI("m-1", api="chat", api_key="k", network=ReplayNetwork()))
    function = {"name": "Album", "arguments": SHORT.model_dump_json()}
    message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    assert make.parse(body) == SHORT
    data = json.dumps(body).encode()
    for received in (data, bytearray(data), memoryview(data), data.decode()):
        assert make.parse(received) == SHORT


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
        with pytest.raises(
            toolcast.errors.PromptError, match=f"an example of type {type(example).__name__} does not fit"
        ):
            make(example=example)
    assert llm.requests == []


@pytest.mark.parametrize("llm", [7, object(), ScriptedLLM])
def test_what_is_no_llm_is_refused_by_its_type(llm: Any) -> None:
    with pytest.raises(toolcast.errors.UnsupportedLLMError, match=f"got {type(llm).__name__}"):
        ToolOrchestratingLLM(Album, "x", llm)


def test_progress_events_of_a_structured_call_are_discarded(api: API) -> None:
    def note(a: int, context: ToolContext) -> int:
        context.emit("half")
        return -a

    tool = CallableTool.from_function(note).with_(timeout=BUFFERED_WITHIN)
    assert api.call(maker(THREE, output=tool, allow_parallel_tool_calls=True)) == [-1, -2, -3]
    assert api.call(maker(THREE[0], output=note)) == -1
