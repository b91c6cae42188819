"""Structured calls through the public API: results, errors, retries; sync and async."""

from __future__ import annotations

import copy
import functools
import json
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic import BaseModel, Field, field_validator

import toolcast
from support.albums import SEA, SHORT, Album, Apology, Song, call
from support.sync_and_async import API
from toolcast import (
    LATER,
    Configs,
    FallbackLLM,
    OpenAI,
    Settings,
    ToolcastError,
    ToolOrchestratingLLM,
    TryAgain,
    ValidationError,
    is_partial,
    user,
)
from toolcast.errors import (
    MissingLLMError,
    NoToolCallError,
    OutputTruncated,
    PromptError,
    StreamTruncated,
    UnknownToolError,
    UnsupportedLLMError,
)
from toolcast.events import ChatResponse, Finish, TextDelta, ToolCallDelta, ToolCallStart
from toolcast.providers.http_adapter import json_member
from toolcast.testing import ScriptedLLM, use_llm
from toolcast.values.server_tools import CodeExecution
from toolcast.values.states import CALL, STREAM
from toolcast.values.tool_spec import NamedTool


def maker(*answers: Any, output: Any = Album, prompt: Any = "about {topic}", **options: Any) -> Any:
    llm = ScriptedLLM(*answers)
    return ToolOrchestratingLLM(output, prompt, llm, **options), llm


# -- construction ---------------------------------------------------------------------------------------------


def test_no_llm_is_an_assertion_error() -> None:
    with pytest.raises(AssertionError, match="llm must be provided or set in Configs"):
        ToolOrchestratingLLM(Album, "x")


def test_an_llm_without_function_calling_is_named() -> None:
    with pytest.raises(ValueError, match="Model name parrot does not support function calling"):
        ToolOrchestratingLLM(Album, "x", ScriptedLLM(model="parrot", function_calling=False))


@pytest.mark.parametrize("prompt", [5, None, b"bytes"])
def test_a_prompt_of_a_wrong_type(prompt: Any) -> None:
    with pytest.raises(ValueError, match="prompt must be"):
        ToolOrchestratingLLM(Album, prompt, ScriptedLLM())


def test_prompt_omitted() -> None:
    with pytest.raises(TypeError):
        ToolOrchestratingLLM(Album, llm=ScriptedLLM())  # type: ignore[call-overload]  # that is the test


@pytest.mark.parametrize("output", ["x", None, 42, type(None)])
def test_an_output_that_cannot_be_asked_for(output: Any) -> None:
    llm = ScriptedLLM()
    with pytest.raises(TypeError):
        ToolOrchestratingLLM(output, "x", llm)
    assert llm.requests == []


def test_the_default_llm_of_the_process_and_of_a_context() -> None:
    everywhere, here = ScriptedLLM(SEA), ScriptedLLM(SHORT)
    Configs.llm = everywhere
    try:
        assert ToolOrchestratingLLM(Album, "x")() == SEA
        with Configs.use(llm=here):
            assert ToolOrchestratingLLM(Album, "x")() == SHORT
        assert ToolOrchestratingLLM(Album, "x").llm is everywhere
    finally:
        Configs.llm = None


def test_use_llm_reaches_the_threads_of_a_pool() -> None:
    make = ToolOrchestratingLLM(Album, "x", ScriptedLLM())
    with ThreadPoolExecutor() as pool:
        with use_llm(ScriptedLLM(SEA)):
            assert pool.submit(make).result() == SEA
        wide = ScriptedLLM(SEA, SHORT, SEA)
        with use_llm(wide, process_wide=True):
            assert pool.submit(make).result() == SEA
            with use_llm(ScriptedLLM(SHORT), process_wide=True):
                assert pool.submit(make).result() == SHORT
            assert pool.submit(make).result() == SHORT
            with use_llm(ScriptedLLM(SHORT, SEA, SHORT)):
                assert pool.submit(make).result() == SHORT
                assert make() == SEA
                assert pool.submit(copy_context().run, make).result() == SHORT
            assert make() == SEA
            assert len(wide.requests) == 3
    with pytest.raises(ToolcastError, match="another request was made"):
        make()


def test_work_that_outlives_use_llm_reaches_no_llm() -> None:
    own = ScriptedLLM(SEA)
    make = ToolOrchestratingLLM(Album, "x", own)
    with use_llm(ScriptedLLM()):
        context = copy_context()
    with pytest.raises(ToolcastError, match="after the block of use_llm around it had ended"):
        context.run(make)
    assert own.requests == []


def test_blocks_that_are_process_wide_may_end_in_any_order() -> None:
    make = ToolOrchestratingLLM(Album, "x", ScriptedLLM())
    first, second = ExitStack(), ExitStack()
    first.enter_context(use_llm(ScriptedLLM(), process_wide=True))
    second.enter_context(use_llm(ScriptedLLM(SHORT), process_wide=True))
    first.close()
    assert make() == SHORT
    second.close()
    with pytest.raises(ToolcastError, match="another request was made"):
        make()


def test_use_llm_replaces_the_llm_of_every_call() -> None:
    make, original = maker(SEA)
    with use_llm(ScriptedLLM(SHORT)):
        assert make(topic="a") == SHORT
    assert make(topic="a") == SEA
    assert len(original.requests) == 1


@pytest.mark.parametrize("mode", ["tool_call", "json_schema", "prompted"])
def test_what_stands_in_for_an_llm_need_not_have_its_modes(mode: Any) -> None:
    make = ToolOrchestratingLLM(Album, "About {topic}", toolcast.OpenAI("m-1", api="chat", api_key="k"), mode=mode)
    with use_llm(ScriptedLLM(SHORT, SEA)):
        assert make(topic="a") == SHORT
        assert make.stream(topic="a").final() == SEA


@pytest.mark.parametrize("attempts", [0, -1])
def test_attempts_are_at_least_one(attempts: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        maker(max_attempts=attempts)


def test_an_unknown_tool_choice_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="Albun"):
        maker(tool_choice="Albun")


def test_read_only_properties() -> None:
    make, llm = maker()
    for name in ("output_cls", "llm", "allow_parallel_tool_calls", "tool_choice", "verbose"):
        with pytest.raises(AttributeError):
            setattr(make, name, None)
    assert (make.output_cls, make.llm, make.allow_parallel_tool_calls) == (Album, llm, False)
    assert (make.tool_choice, make.verbose) == (None, False)


# -- results --------------------------------------------------------------------------------------------------


def test_a_tool_call_becomes_the_object(api: API) -> None:
    make, llm = maker(SEA)
    album = api.call(make, topic="the sea")
    assert album == SEA
    assert type(album) is Album
    assert llm.requests[0].messages[-1].text == "about the sea"
    assert llm.requests[0].tool_choice == NamedTool("Album")


def test_run_returns_response_usage_and_attempts(api: API) -> None:
    make, _ = maker(SEA)
    result = api.run(make, topic="x")
    assert (result.output, result.repairs, len(result.attempts)) == (SEA, (), 1)
    assert result.usage == toolcast.Usage(10, 5)
    assert result.response.stop_reason == "tool_use"
    assert result.attempts[0].error is None


@pytest.mark.parametrize(
    ("value", "text"),
    [("the sea", "the sea"), ({"topic": "the sea"}, "the sea"), (Song(title="Sea", seconds=3), '{"title":"Sea"')],
    ids=["text", "mapping", "model"],
)
async def test_a_prompt_with_one_variable_takes_a_positional_value_as_map_does(value: Any, text: str) -> None:
    make, llm = maker(*[SEA] * 8)
    assert (
        make(value) == make.run(value).output == make.stream(value).final() == make(value, stream=True).final() == SEA
    )
    assert await make.acall(value) == (await make.arun(value)).output == SEA
    streams = [make.astream(value), await make.acall(value, stream=True)]
    assert [await stream.final() for stream in streams] == [SEA, SEA]
    sent = {request.messages[-1].text for request in llm.requests}
    assert len(llm.requests) == 8 and len(sent) == 1 and sent.pop().startswith(f"about {text}")
    mapped, on_map = maker(SEA)
    assert [outcome.output for outcome in mapped.map([value])] == [SEA]
    assert on_map.requests[0].messages == llm.requests[0].messages == make.preview(value).messages


@pytest.mark.parametrize(
    ("prompt", "values", "named", "message"),
    [
        (
            "{title} {text}",
            ("a",),
            {},
            r"has 2 variables, and a positional value is for one: call\(title=..., text=...\)",
        ),
        ("{title} {text}", ("a", "b"), {}, r"call\(title=..., text=...\)"),
        ("{title} {text}", ({"title": "a", "text": "b"},), {}, r"call\(title=..., text=...\)"),
        ("nothing", ("a",), {}, "the prompt has no variables: call it without a value"),
        ("{text}", ("a", "b"), {}, r"got two values for 'text': pass one, as call\('text'\) or call\(text=...\)"),
        ("{text}", ("a",), {"text": "b"}, "got two values for 'text'"),
    ],
)
async def test_a_positional_value_for_another_prompt(
    prompt: str, values: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    make, llm = maker(SEA, prompt=prompt)
    for method in (make, make.run, make.stream, make.astream, make.preview):
        with pytest.raises(TypeError, match=message):
            method(*values, **named)
    for method in (make.acall, make.arun):
        with pytest.raises(TypeError, match=message):
            await method(*values, **named)
    assert llm.requests == []


def test_a_positional_value_beside_a_name_that_the_prompt_lacks() -> None:
    make, _ = maker(SEA)
    with pytest.raises(PromptError, match="no variable is named 'topics'"):
        make("the sea", topics=2)
    with pytest.raises(PromptError, match=r"with_\(settings=Settings\(temperature=...\)\)"):
        make("the sea", temperature=2)
    with pytest.raises(PromptError, match=r"no value for 'topic' in the input; it has: text"):
        make({"text": "the sea"})
    with pytest.raises(PromptError, match="None is no value"):
        make(None)


def test_the_stream_grows_and_ends_in_the_object(api: API) -> None:
    make, _ = maker(SEA)
    seen = api.stream(make, topic="x")
    assert seen.final == SEA
    assert type(seen.final) is Album
    partials = seen.items[:-1]
    assert len(partials) > 10
    assert all(isinstance(item, Album) and is_partial(item) for item in partials)
    titles = [item.title for item in partials if item.title is not None]
    assert all(SEA.title.startswith(title) for title in titles)
    assert [len(title) for title in titles] == sorted(len(title) for title in titles)


@pytest.mark.parametrize("chunk", range(1, 40))
def test_every_chunk_size_ends_in_the_same_object(chunk: int) -> None:
    llm = ScriptedLLM(SEA, chunk=chunk)
    items = list(ToolOrchestratingLLM(Album, "x", llm).stream())
    assert items[-1] == SEA


@pytest.mark.fault(99)
def test_the_first_call_is_the_result(api: API, caplog: pytest.LogCaptureFixture) -> None:
    make, _ = maker([call(SEA), call(SHORT, id="call_2")])
    assert api.call(make, topic="x") == SEA
    assert "more than one tool call" in caplog.text


def test_the_first_call_is_the_result_of_a_stream(api: API) -> None:
    make, _ = maker([call(SEA), call("{broken", id="call_2")])
    assert api.stream(make, topic="x").final == SEA


def test_parallel_calls_are_a_list_in_call_order(api: API) -> None:
    make, _ = maker([call(SEA), call(SHORT, id="call_2")], allow_parallel_tool_calls=True)
    assert api.call(make, topic="x") == [SEA, SHORT]


def test_one_parallel_call_is_a_list_too(api: API) -> None:
    make, _ = maker(SEA, allow_parallel_tool_calls=True)
    assert api.call(make, topic="x") == [SEA]


def test_a_parallel_stream_gives_lists(api: API) -> None:
    make, _ = maker([call(SEA), call(SHORT, id="call_2")], allow_parallel_tool_calls=True)
    seen = api.stream(make, topic="x")
    assert seen.final == [SEA, SHORT]
    assert all(isinstance(item, list) for item in seen.items)
    assert [len(item) for item in seen.items] == sorted(len(item) for item in seen.items)
    assert all(type(album) is Album for album in seen.final)


def test_one_bad_parallel_call_keeps_the_good_ones(api: API) -> None:
    answer = [call(SEA), call('{"title": 1}', id="call_2")]
    make, _ = maker(answer, answer, allow_parallel_tool_calls=True)
    with pytest.raises(ValidationError) as caught:
        api.call(make, topic="x")
    assert caught.value.partial == [SEA]


class Numbers(BaseModel):
    code: str
    count: int
    tags: list[str]


@pytest.mark.fault(90)
def test_strings_stay_and_json_text_is_decoded_once(api: API) -> None:
    make, _ = maker(call('{"code": "00123", "count": "5", "tags": "[\\"a\\"]"}', "Numbers"), output=Numbers)
    result = api.run(make, topic="x")
    assert result.output == Numbers(code="00123", count=5, tags=["a"])
    assert len(result.repairs) == 1
    assert "tags" in result.repairs[0]
    assert result.response.repairs == result.repairs


@pytest.mark.parametrize(
    ("output", "value"),
    [
        (list[Song], SEA.songs),
        (int, 7),
        (str, "words"),
        (Literal["a", "b"], "b"),
        (int | None, None),
        (dict[str, int], {"a": 1}),
        (bool, True),
        (list[int], [1, 2, 3]),
    ],
)
def test_any_type_that_pydantic_validates(api: API, output: Any, value: Any) -> None:
    answer = {"value": value} if isinstance(value, str) else value  # a string alone would be an answer in text
    make, _ = maker(answer, answer, output=output)
    assert api.call(make, topic="x") == value
    assert api.stream(make, topic="x").final == value


def test_a_list_grows_element_by_element() -> None:
    make, _ = maker(SEA.songs, output=list[Song])
    lengths = [len(item) for item in make.stream(topic="x")]
    assert lengths == sorted(lengths)
    assert lengths[-1] == 2


def test_a_union_offers_one_tool_per_member(api: API) -> None:
    make, llm = maker(Apology(reason="no"), SEA, output=Album | Apology)
    assert api.call(make, topic="x") == Apology(reason="no")
    assert [tool.name for tool in llm.requests[0].tools] == ["Album", "Apology"]
    assert llm.requests[0].tool_choice == "required"
    assert api.stream(make, topic="x").final == SEA


# -- functions ------------------------------------------------------------------------------------------------

runs: list[tuple[int, str]] = []


def repeat(count: int, word: str = "a") -> str:
    """Repeat a word."""
    runs.append((count, word))
    return word * count


async def arepeat(count: int, word: str = "a") -> str:
    return repeat(count, word)


class Repeater:
    def __call__(self, count: int, word: str = "a") -> str:
        return repeat(count, word)

    def method(self, count: int, word: str = "a") -> str:
        return repeat(count, word)


@pytest.mark.parametrize(
    "function",
    [
        repeat,
        arepeat,
        functools.partial(repeat, word="b"),
        Repeater(),
        Repeater().method,
        lambda count, word="a": repeat(int(count), word),
    ],
    ids=["function", "async", "partial", "callable", "method", "lambda"],
)
def test_a_function_is_called_once_with_coerced_arguments(api: API, function: Any) -> None:
    runs.clear()
    make, llm = maker({"count": "3"}, {"count": "3"}, output=function)
    word = "b" if isinstance(function, functools.partial) else "a"
    assert api.call(make, topic="x") == word * 3
    assert runs == [(3, word)]
    assert api.stream(make, topic="x").items == [word * 3]
    assert runs == [(3, word)] * 2
    assert llm.requests[0].tools[0].name.replace("_", "").replace("-", "").isalnum()


@pytest.mark.fault(110)
def test_a_function_that_raises_ran_once_and_is_named(api: API) -> None:
    ran: list[int] = []

    def explode(count: int) -> None:
        ran.append(count)
        raise OSError("boom")

    make, _ = maker({"count": 1}, {"count": 1}, output=explode)
    with pytest.raises(OSError, match="boom") as caught:
        api.call(make, topic="x")
    assert ran == [1]
    assert "explode" in "".join(caught.value.__notes__)
    assert isinstance(api.stream(make, topic="x").error, OSError)
    assert ran == [1, 1]


# -- answers that are not a clean call --------------------------------------------------------------------------


@pytest.mark.fault(98)
def test_text_without_a_call(api: API) -> None:
    make, _ = maker("I would rather not.", "I would rather not.", SEA)
    with pytest.raises(NoToolCallError, match="Expected at least one tool call, but got 0 tool calls") as caught:
        api.call(make, topic="x")
    assert "I would rather not." in str(caught.value)
    assert caught.value.response is not None
    assert len(caught.value.attempts) == 1
    assert isinstance(api.stream(make, topic="x").error, NoToolCallError)
    assert api.call(make, topic="x") == SEA


def test_text_that_holds_the_object(api: API) -> None:
    make, _ = maker(SEA.model_dump_json(), SEA.model_dump_json())
    result = api.run(make, topic="x")
    assert result.output == SEA
    assert "text" in result.repairs[0]
    seen = api.stream(make, topic="x")
    assert seen.final == SEA
    assert len(seen.items) > 10


def test_text_that_fits_two_members_of_a_union_is_no_answer(api: API) -> None:
    class A(BaseModel):
        x: int

    class B(BaseModel):
        x: int

    make, _ = maker('{"x": 1}', output=A | B)
    with pytest.raises(NoToolCallError):
        api.call(make, topic="x")


def test_invalid_arguments_raise_and_say_which(api: API) -> None:
    make, _ = maker(*[call('{"title": "a", "artist": "b", "songs": [{"title": "c"}]}')] * 2)
    with pytest.raises(ValidationError) as caught:
        api.call(make, topic="x")
    error = caught.value
    assert error.tool_name == "Album"
    assert error.arguments.startswith('{"title"')
    assert error.error_count() == 1
    assert error.errors()[0]["loc"] == ("songs", 0, "seconds")
    assert isinstance(error.__cause__, pydantic.ValidationError)
    assert isinstance(error, ValueError)
    streamed = api.stream(make, topic="x").error
    assert isinstance(streamed, ValidationError)
    assert [(fault["loc"], fault["type"], fault["msg"]) for fault in streamed.errors()] == [
        (fault["loc"], fault["type"], fault["msg"]) for fault in error.errors()
    ]


def test_the_same_errors_streamed_and_whole_without_fail_fast(api: API) -> None:
    bad = call('{"title": 1, "artist": "b", "songs": [{"title": "c"}, {"title": 2, "seconds": "x"}]}')
    make, _ = maker(bad, bad)
    with pytest.raises(ValidationError) as whole:
        api.call(make, topic="x")
    seen = api.stream(make.with_(fail_fast=False), topic="x")
    assert isinstance(seen.error, ValidationError)
    assert seen.error.errors() == whole.value.errors()
    assert whole.value.error_count() == 4


def test_fail_fast_stops_early() -> None:
    bad = '{"title": 1, "artist": "' + "long " * 200 + '"}'
    llm = ScriptedLLM(call(bad), chunk=4)
    stream = ToolOrchestratingLLM(Album, "x", llm).stream()
    with pytest.raises(ValidationError) as caught:
        stream.final()
    assert len(caught.value.arguments) < 30
    assert caught.value.errors()[0]["loc"] == ("title",)
    # Code runs in a container that Anthropic names at the end: the next attempt needs it.
    whole: list[dict[str, Any]] = [{"fail_fast": False}, {"tools": [CodeExecution()]}]
    for options in whole:
        make: Any = ToolOrchestratingLLM(Album, "x", ScriptedLLM(call(bad), chunk=4), **options)
        with pytest.raises(ValidationError) as caught:
            make.stream().final()
        assert len(caught.value.arguments) == len(bad)


@pytest.mark.fault(74, 88, 89)
@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ("[1]", "arguments: Input should be an object"),
        ("7", "arguments: Input should be an object"),
        ('"Sea"', "arguments: Input should be an object"),
        ("null", "title: Field required"),  # no arguments at all
        ('{"title": "a", "artist": "b", "songs": {"title": "c"}}', "songs: Input should be a valid array"),
        ('{"title": "a", "artist": "b", "songs": [3]}', "songs.0: Input should be an object"),
    ],
)
def test_a_value_of_another_kind_where_an_object_is_expected(api: API, arguments: str, fault: str) -> None:
    make, llm = maker(*[call(arguments)] * 2, call(arguments), SEA, max_attempts=1)
    with pytest.raises(ValidationError) as caught:
        api.call(make, topic="x")
    assert fault in str(caught.value)
    assert isinstance(api.stream(make, topic="x").error, ValidationError)
    assert api.call(make.with_(max_attempts=2), topic="x") == SEA
    (result,) = llm.requests[-1].messages[-1].parts
    assert result.is_error and fault in result.content


@pytest.mark.fault(87)
def test_an_unknown_tool(api: API) -> None:
    make, _ = maker(call(SEA, "Albumen"))
    with pytest.raises(UnknownToolError, match="Albumen"):
        api.call(make, topic="x")


@pytest.mark.fault(87, 98)
@pytest.mark.parametrize("bad", ["hello", call('{"title": 1}'), call(SEA, "Albumen")])
def test_a_bad_answer_is_asked_again(api: API, bad: Any) -> None:
    make, llm = maker(bad, SEA, bad, SEA, max_attempts=2)
    result = api.run(make, topic="x")
    assert result.output == SEA
    assert len(result.attempts) == 2
    assert result.attempts[0].error is not None
    assert result.attempts[1].error is None
    assert result.usage == toolcast.Usage(20, 10)
    again = llm.requests[1].messages
    assert len(again) == 3
    assert again[1].role == "assistant"
    assert [part.call_id for part in again[2].parts if part.type == "tool_result"] == [
        part.id for part in again[1].tool_calls
    ]
    assert api.stream(make, topic="x").final == SEA


def test_attempts_end_with_every_error(api: API) -> None:
    make, _ = maker("one", "two", "three", max_attempts=3)
    with pytest.raises(NoToolCallError, match="three") as caught:
        api.call(make, topic="x")
    assert [type(attempt.error) for attempt in caught.value.attempts] == [NoToolCallError] * 3


def test_a_restarted_stream_emits_an_event_and_starts_empty() -> None:
    make, _ = maker(call('{"title": "Wrong", "artist": 5}'), SEA, max_attempts=2)
    stream = make.stream(topic="x")
    names = [type(event).__name__ for event in stream.events()]
    assert names.count("Restarted") == 1
    assert stream.final() == SEA
    make, _ = maker(call('{"title": "Wrong", "artist": 5}'), SEA, max_attempts=2)
    titles = [item.title for item in make.stream(topic="x")]
    assert "Wrong" in titles
    assert titles[-1] == SEA.title


class Careful(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def no_numbers(cls, name: str) -> str:
        if any(character.isdigit() for character in name):
            raise TryAgain("no digits, please")
        return name


def test_try_again_in_a_validator(api: API) -> None:
    make, llm = maker({"name": "r2d2"}, {"name": "Ada"}, output=Careful, max_attempts=2)
    assert api.call(make, topic="x") == Careful(name="Ada")
    assert "no digits, please" in str(llm.requests[1].messages)


def test_try_again_without_attempts_left(api: API) -> None:
    make, _ = maker({"name": "r2d2"}, {"name": "r2d2"}, output=Careful)
    with pytest.raises(ValidationError, match="no digits, please") as caught:
        api.call(make, topic="x")
    assert isinstance(caught.value.__cause__, TryAgain)
    assert isinstance(api.stream(make, topic="x").error, ValidationError)


def test_try_again_in_a_function(api: API) -> None:
    def positive(x: int) -> int:
        if x < 0:
            raise TryAgain("x must not be negative")
        return x

    make, llm = maker({"x": -1}, {"x": 1}, output=positive, max_attempts=2)
    assert api.call(make, topic="t") == 1
    assert "x must not be negative" in str(llm.requests[1].messages)


@pytest.mark.fault(78)
def test_max_tokens_with_complete_arguments(api: API) -> None:
    make, _ = maker(*[call(SEA, truncated=True)] * 2)
    result = api.run(make, topic="x")
    assert result.output == SEA
    assert result.response.stop_reason == "max_tokens"
    assert api.stream(make, topic="x").final == SEA


@pytest.mark.fault(78)
def test_max_tokens_with_cut_arguments(api: API) -> None:
    make, _ = maker(*[call('{"title": "Sea of', truncated=True)] * 2)
    with pytest.raises(OutputTruncated, match="max_tokens"):
        api.call(make, topic="x")
    seen = api.stream(make, topic="x")
    assert isinstance(seen.error, OutputTruncated)
    assert seen.items[-1].title == "Sea of"


def test_a_stream_without_its_end(api: API) -> None:
    events = [ToolCallStart("a", "Album"), ToolCallDelta("a", SEA.model_dump_json())]
    make, _ = maker(events, events)
    with pytest.raises(StreamTruncated):
        api.call(make, topic="x")
    seen = api.stream(make, topic="x")
    assert isinstance(seen.error, StreamTruncated)
    assert seen.error.partial == seen.items[-1]
    assert is_partial(seen.error.partial)


@pytest.mark.parametrize(
    ("reason", "error"),
    [("refusal", toolcast.errors.Refused), ("content_filter", toolcast.errors.ContentBlocked)],
)
def test_a_stopped_answer(api: API, reason: Any, error: type[Exception]) -> None:
    make, _ = maker([TextDelta("Sorry"), Finish(reason)])
    with pytest.raises(error, match="Sorry"):
        api.call(make, topic="x")


# -- prompts and settings -----------------------------------------------------------------------------------------


def test_a_missing_and_an_unknown_value_send_nothing(api: API) -> None:
    make, llm = maker(prompt="about {topic}, {other}")
    with pytest.raises(toolcast.errors.PromptError, match="other"):
        api.call(make, topic="x")
    with pytest.raises(toolcast.errors.PromptError, match="topic"):
        api.call(make, topik="x", other="y")
    assert llm.requests == []


def test_values_are_inserted_once(api: API) -> None:
    make, llm = maker(SEA, prompt="about {topic}, {other}")
    api.call(make, topic="{other}", other="y")
    assert llm.requests[0].messages[-1].text == "about {other}, y"


def test_a_stream_checks_its_prompt_when_it_is_made() -> None:
    make, _ = maker()
    with pytest.raises(toolcast.errors.PromptError):
        make.stream()


def test_the_system_prompt_is_first_on_every_path(api: API) -> None:
    llm = ScriptedLLM(SEA, SEA, system_prompt="Be brief.")
    make = ToolOrchestratingLLM(Album, "x", llm)
    api.call(make)
    api.stream(make)
    for asked in llm.requests:
        assert asked.messages[0] == toolcast.system("Be brief.")


def test_the_prompt_setter_checks_and_affects_later_calls_only() -> None:
    make, llm = maker(SEA, SEA, prompt="one")
    stream = make.stream()
    make.prompt = "two"
    with pytest.raises(ValueError):
        make.prompt = 5
    assert isinstance(make.prompt, toolcast.PromptTemplate)
    stream.final()
    make()
    assert [asked.messages[-1].text for asked in llm.requests] == ["one", "two"]


def test_what_all_calls_have_in_common_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def counted(name: str, value: object, **options: bool) -> str:
        written.append(name)
        return json_member(name, value, **options)

    monkeypatch.setattr("toolcast.providers.http_adapter.json_member", counted)
    make = ToolOrchestratingLLM(Album, "About {topic}", OpenAI("gpt-4o", api="chat", api_key="sk-1"))
    bodies = [json.loads(make.request(topic=topic).body) for topic in ("one", "two")]
    assert written.count("tools") == 1 and written.count("messages") == 3  # an empty place, and twice the messages
    assert [body["messages"][0]["content"] for body in bodies] == ["About one", "About two"]
    other = make.with_(settings=Settings(temperature=0.5), tool_choice="auto")
    assert other.preview(topic="x").body["temperature"] == 0.5
    assert (make.preview(topic="x").body["tools"], make.tool_choice) == (bodies[0]["tools"], None)


def test_with_gives_a_changed_copy() -> None:
    make, llm = maker(SEA, SEA)
    settings = Settings(temperature=0.5)
    other = make.with_(tool_choice="auto", settings=settings, max_attempts=2)
    assert (make.tool_choice, other.tool_choice) == (None, "auto")
    make(topic="x")
    other(topic="x")
    assert [asked.tool_choice for asked in llm.requests] == [NamedTool("Album"), "auto"]
    assert [asked.settings.temperature for asked in llm.requests] == [None, 0.5]
    with pytest.raises(TypeError, match="temperature"):
        make.with_(temperature=1)


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("settings", {"temperature": 1}),
        ("allow_parallel_tool_calls", "no"),
        ("verbose", 1),
        ("fail_fast", None),
        ("tool_choice", 5),
        ("observer", "x"),
        ("hooks", "x"),
        ("tools", [print]),
        ("max_attempts", "2"),
        ("llm", 5),
    ],
)
def test_an_option_is_checked_by_the_constructor_and_by_a_copy(option: str, wrong: Any) -> None:
    given: dict[str, Any] = {"llm": ScriptedLLM(), option: wrong}
    with pytest.raises((TypeError, UnsupportedLLMError)) as first:
        ToolOrchestratingLLM(Album, "x", **given)
    with pytest.raises(type(first.value)) as second:
        ToolOrchestratingLLM(Album, "x", ScriptedLLM()).with_(**{option: wrong})
    assert str(second.value) == str(first.value)


def test_settings_beat_each_other_field_by_field() -> None:
    llm = ScriptedLLM(SEA, settings=Settings(temperature=0.1, seed=1))
    make = ToolOrchestratingLLM(Album, "x", llm, settings=Settings(temperature=0.2))
    with Configs.use(settings=Settings(seed=2, max_tokens=50)):
        make()
    used = llm.requests[0].settings
    assert (used.temperature, used.seed, used.max_tokens) == (0.2, 1, 50)


def test_few_shot_objects_become_calls() -> None:
    prompt = [("user", "about the sea"), ("assistant", SEA), ("user", "about {topic}")]
    make, llm = maker(SHORT, prompt=prompt)
    assert make(topic="b") == SHORT
    sent = llm.requests[0].messages
    assert [message.role for message in sent] == ["user", "assistant", "tool", "user"]
    assert sent[1].tool_calls[0].name == "Album"
    assert Album.model_validate_json(sent[1].tool_calls[0].arguments) == SEA


def test_validation_context_reaches_the_validators(api: API) -> None:
    class Bounded(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def below(cls, x: int, info: pydantic.ValidationInfo) -> int:
            assert info.context is not None
            assert x < info.context["limit"]
            return x

    make, _ = maker({"x": 1}, {"x": 1}, output=Bounded)
    bounded = make.with_(validation_context={"limit": 5})
    assert api.call(bounded, topic="x").x == 1
    assert api.stream(bounded, topic="x").final.x == 1
    llm = ScriptedLLM(call('{"x": 1}', "Bounded"), call('{"x": 1}', "Bounded"))
    bounded = ToolOrchestratingLLM(Bounded, "x", llm, validation_context={"limit": 5})
    assert api.call(bounded).x == 1
    assert api.stream(bounded).final.x == 1


def test_preview_sends_nothing() -> None:
    make, llm = maker()
    preview = make.preview(topic="the sea")
    assert preview.messages[-1].text == "about the sea"
    assert set(preview.tools["Album"]["properties"]) == {"title", "artist", "songs"}
    assert preview.mode == "tool_call"
    assert llm.requests == []


def test_parse_reads_a_response(api: API) -> None:
    make, llm = maker(SEA)
    response = api.chat(llm, "x", tools=[Album])
    assert isinstance(response, ChatResponse)
    assert make.parse(response) == SEA
    with pytest.raises(TypeError):
        make.request(topic="x")


# -- observers ------------------------------------------------------------------------------------------------


def test_an_observer_is_called_with_the_states_of_a_call(api: API) -> None:
    observed: list[tuple[str, str]] = []
    make, _ = maker(SEA, SEA, observer=lambda call_id, state: observed.append((call_id, state)))
    assert observed == [("orchestrator", "validating"), ("orchestrator", "ready")]
    observed.clear()
    make.prompt = "about {topic}"
    assert observed == [("orchestrator", "updating_prompt"), ("orchestrator", "ready")]
    observed.clear()
    api.call(make, topic="x")
    assert [state for _, state in observed] == [
        "creating_tool",
        "formatting_prompt",
        "extending_messages",
        "calling_llm",
        "parsing_tool_calls",
        "executing_tools",
        "creating_response",
        "extracting_output",
        "ready",
    ]
    assert len({call_id for call_id, _ in observed}) == 1
    observed.clear()
    api.stream(make, topic="x")
    states = [state for _, state in observed]
    assert states[:4] == ["creating_tool", "formatting_prompt", "extending_messages", "initiating_stream"]
    assert states[4:10] == [
        "receiving_chunk",
        "processing_chunk",
        "parsing_partial_tool_calls",
        "updating_objects",
        "more_chunks",
        "receiving_chunk",
    ]
    assert "yielding_partial" in states
    assert states[-1] == "ready"


def test_errors_end_in_error(api: API) -> None:
    observed: list[str] = []
    make, _ = maker("no", "no", observer=lambda _, state: observed.append(state))
    with pytest.raises(NoToolCallError):
        api.call(make, topic="x")
    assert observed[-1] == "error"
    api.stream(make, topic="x")
    assert observed[-1] == "error"


@pytest.mark.fault(110)
def test_an_observer_that_fails_changes_nothing(api: API, caplog: pytest.LogCaptureFixture) -> None:
    def broken(call_id: str, state: str) -> None:
        raise RuntimeError("observer fell asleep")

    make, _ = maker(SEA, observer=broken)
    assert api.call(make, topic="x") == SEA
    assert "observer fell asleep" in caplog.text


@pytest.mark.parametrize("table", [CALL, STREAM])
def test_every_state_of_a_table_can_be_reached(table: Any) -> None:
    reached = {"ready"}
    while more := {target for state in reached for target in table[state].values()} - reached:
        reached |= more
    assert reached == set(table)


# -- independence -----------------------------------------------------------------------------------------------


def test_two_streams_of_one_instance_are_independent() -> None:
    make, _ = maker(SEA, SHORT)
    first, second = make.stream(topic="a"), make.stream(topic="b")
    both = list(zip(first, second, strict=False))
    assert len(both) > 2
    assert (first.final(), second.final()) == (SEA, SHORT)


def test_an_orchestrator_is_a_tool(api: API) -> None:
    make, _ = maker(SEA)
    outer = ScriptedLLM([call('{"topic": "tides"}', make.as_tool().name)])
    answer = api.method(outer, "predict_and_call", [make], "Make me an album")
    assert answer.parse_tool_outputs() == SEA


class Described(BaseModel):
    mood: Annotated[str, Field(description="One word.")]


def test_the_schema_carries_descriptions() -> None:
    make, _ = maker(output=Described)
    assert make.preview(topic="x").tools["Described"]["properties"]["mood"]["description"] == "One word."


@pytest.mark.parametrize(
    ("options", "way"),
    [
        ({"llm": "ollama:x"}, "with_(llm=...)"),
        ({"settings": Settings(temperature=0)}, "with_(settings=...)"),
        ({"max_attempts": 2}, "with_(max_attempts=...)"),
        ({"temperature": 0}, "with_(settings=Settings(temperature=...))"),
    ],
)
def test_an_option_passed_to_a_call_is_an_error_that_points_to_with(api: API, options: Any, way: str) -> None:
    llm = ScriptedLLM()
    make = ToolOrchestratingLLM(Album, "about {topic}", llm)
    with pytest.raises(PromptError, match=re.escape(way)):
        api.call(make, topic="a", **options)
    with pytest.raises(PromptError, match=re.escape(way)):
        make.preview(topic="a", **options)
    assert llm.requests == []


def test_a_variable_may_have_the_name_of_an_option(api: API) -> None:
    llm = ScriptedLLM(SEA)
    assert api.call(ToolOrchestratingLLM(Album, "{llm} {seed}", llm), llm="a", seed="b") == SEA
    assert llm.requests[0].messages == (user("a b"),)


def test_the_states_of_the_object_itself() -> None:
    seen: list[str] = []

    class StreamRecord(ToolOrchestratingLLM[Any]):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            seen.append(self.state)

    assert StreamRecord.__new__(StreamRecord).state == "uninitialized"
    make = StreamRecord(Album, "a", ScriptedLLM(SEA))
    assert list(dict.fromkeys(seen)) == ["validating", "ready"]
    seen.clear()
    make.prompt = "about {topic}"
    assert list(dict.fromkeys(seen)) == ["updating_prompt", "ready"]
    with pytest.raises(PromptError):
        make.prompt = 5  # type: ignore[assignment]  # what is refused
    assert make.state == "ready"
    assert make(topic="b") == SEA
    assert make.with_(prompt="c").state == "ready"
    broken = StreamRecord.__new__(StreamRecord)
    with pytest.raises(PromptError):
        broken.__init__(Album, 5, ScriptedLLM())  # type: ignore[misc, call-overload]  # what is refused
    assert broken.state == "error"


def test_the_llm_is_validated_before_the_prompt() -> None:
    silent = ScriptedLLM(function_calling=False)
    with pytest.raises(UnsupportedLLMError):
        ToolOrchestratingLLM(Album, "{", silent)
    with pytest.raises(MissingLLMError):
        ToolOrchestratingLLM(Album, "{")
    with pytest.raises(UnsupportedLLMError):
        ToolOrchestratingLLM(Album, "x", ScriptedLLM()).with_(prompt="{", llm=silent)
    with pytest.raises(PromptError):
        ToolOrchestratingLLM(Album, "x", ScriptedLLM()).with_(prompt="{", max_attempts=0)


def test_a_definition_finds_its_llm_at_the_call(api: API) -> None:
    make = ToolOrchestratingLLM(Album, "about {topic}", LATER)
    assert repr(make) == "ToolOrchestratingLLM(Album, prompt='about {topic}', llm=LATER)"
    assert pickle.loads(pickle.dumps(LATER)) is copy.deepcopy(LATER) is LATER
    for read in (lambda: make(topic="x"), lambda: make.llm, lambda: make.map([{"topic": "x"}])):
        with pytest.raises(MissingLLMError):
            read()
    silent = ScriptedLLM(function_calling=False)
    with Configs.use(llm=silent), pytest.raises(UnsupportedLLMError, match="does not support function calling"):
        make(topic="x")
    with Configs.use(llm=LATER), pytest.raises(UnsupportedLLMError, match=r"got LATER, .* Pass an LLM, or its name"):
        make(topic="x")
    first = ScriptedLLM(SEA, SEA, SEA, settings=Settings(max_tokens=7), system_prompt="Be brief.")
    with Configs.use(llm=first):
        assert make.llm is first
        assert api.call(make, topic="x") == SEA
        assert make.with_(prompt="{topic}")(topic="x") == SEA
        assert first.requests[0].settings.max_tokens == 7
        assert [message.text for message in first.requests[0].messages] == ["Be brief.", "about x"]
        with use_llm(ScriptedLLM(SHORT)):
            assert make(topic="x") == SHORT
        (outcome,) = make.map([{"topic": "x"}])  # in threads, whose contexts are others
        assert outcome.output == SEA


def test_what_needs_an_llm_refuses_a_later_one() -> None:
    for use in (lambda: LATER.chat("x"), lambda: LATER.metadata, lambda: FallbackLLM([LATER, ScriptedLLM()])):
        with pytest.raises(UnsupportedLLMError, match="got LATER"):
            use()
