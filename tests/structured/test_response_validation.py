"""Validation of complete responses, and the retry messages for invalid ones."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from support.albums import SEA, SHORT, Album, Apology, Song, call
from support.sync_and_async import API
from toolcast import (
    CallError,
    Engine,
    ToolCallPart,
    ToolOrchestratingLLM,
    TryAgain,
    ValidationError,
    assistant,
    is_partial,
    user,
)
from toolcast.errors import (
    ContentBlocked,
    NoToolCallError,
    OutputTruncated,
    Refused,
    StreamTruncated,
    UnknownToolError,
)
from toolcast.events import ChatResponse, Finish, TextDelta, ToolCallDelta, ToolCallStart
from toolcast.structured.response_validation import ResponseValidator, retry_messages
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import output_tools


def reader(output: Any = Album, **options: Any) -> ResponseValidator:
    return ResponseValidator({tool.name: tool for tool in output_tools(output)}, **options)


def answer(*calls: ToolCallPart, text: str = "", stop: Any = "tool_use") -> ChatResponse:
    return ChatResponse(assistant(text, *calls) if text else assistant(*calls), stop)


def maker(*answers: Any, output: Any = Album, **options: Any) -> Any:
    llm = ScriptedLLM(*answers)
    return ToolOrchestratingLLM(output, "x", llm, **options), llm


# -- reading --------------------------------------------------------------------------------------------------


def test_the_first_call_or_all() -> None:
    both = answer(call(SEA), call(SHORT, id="2"))
    assert [read.value for read in reader().validate(both)] == [SEA]
    assert [read.value for read in reader(parallel=True).validate(both)] == [SEA, SHORT]


def test_the_first_error_of_several_calls_is_raised_and_the_good_ones_kept() -> None:
    calls = answer(call('{"title": 1}'), call(SEA, id="2"), call("{", id="3"), call(SHORT, id="4"))
    with pytest.raises(ValidationError) as caught:
        reader(parallel=True).validate(calls)
    assert caught.value.arguments == '{"title": 1}'
    assert caught.value.partial == [SEA, SHORT]
    assert caught.value.response is calls


def test_an_unknown_tool_names_those_there_are() -> None:
    with pytest.raises(UnknownToolError, match="'Albumen'; it was offered: Album, Apology"):
        reader(Album | Apology).validate(answer(call(SEA, "Albumen")))
    with pytest.raises(UnknownToolError, match="it was offered: none"):
        ResponseValidator({}).validate(answer(call(SEA)))


def test_arguments_that_max_tokens_cut_off() -> None:
    for cut in (True, False):
        with pytest.raises(OutputTruncated, match=r"after 9 characters.*max_tokens=") as caught:
            reader().validate(answer(call('{"title":', truncated=cut), stop="max_tokens"))
        assert is_partial(caught.value.partial)
        assert caught.value.__cause__ is not None


def test_arguments_that_no_limit_cut_off() -> None:
    """The stream ended in the middle of them: more tokens would not help."""
    with pytest.raises(StreamTruncated, match=r"ended inside the arguments of Album, after 9 characters") as caught:
        reader().validate(answer(call('{"title":', truncated=True), stop="tool_use"))
    assert caught.value.arguments == '{"title":'
    assert caught.value.retryable and "max_tokens" not in str(caught.value)


def test_what_was_cut_off_is_not_repaired() -> None:
    """Whole as they are the arguments count; what would have to be repaired may be what is missing."""
    text = SEA.model_dump_json()
    songs = SEA.model_dump_json(include={"songs"})[9:-1]
    doubled = json.dumps(SEA.model_dump() | {"songs": songs})
    assert reader().build_value(call(text, truncated=True)) == SEA
    assert [read.value for read in reader().validate(answer(call(text, truncated=True)))] == [SEA]
    for arguments in (f"```json\n{text}", text + "{", repr(SEA.model_dump()), doubled):
        cut = call(arguments, truncated=True)
        assert reader().build_value(cut) is None
        with pytest.raises(StreamTruncated, match=f"after {len(arguments)} characters"):
            reader().validate(answer(cut))


@pytest.mark.parametrize("stop", ["tool_use", "max_tokens"])
def test_whole_calls_are_repaired(stop: Any) -> None:
    (read,) = reader().validate(answer(call(f"```json\n{SEA.model_dump_json()}\n```"), stop=stop))
    assert (read.value, read.repairs) == (SEA, ("took the JSON out of a markdown fence",))


def test_values_of_single_calls() -> None:
    def count(a: int) -> int:
        return a

    class Fussy(BaseModel):
        a: int

        @field_validator("a")
        @classmethod
        def never(cls, a: int) -> int:
            raise TryAgain("no")

    assert reader().build_value(call(SEA)) == SEA
    assert reader().build_value(call("{")) is None
    assert reader().build_value(call(SEA, "Albumen")) is None
    assert reader(count).build_value(call('{"a": 1}', "count")) is None
    assert reader(Fussy).build_value(call('{"a": 1}', "Fussy")) is None


def test_complete_calls_that_are_not_valid_are_no_items(api: API) -> None:
    calls = [call(SEA), call('{"title": 1}', id="2"), call(SEA, "Albumen", id="3")]
    make, _ = maker(calls, allow_parallel_tool_calls=True)
    seen: list[Any] = []
    with pytest.raises(ValidationError) as caught:
        for item in make.with_(fail_fast=False).stream().items():
            seen.append(item)
    assert seen == [SEA]
    assert caught.value.partial == [SEA]


# -- words where a call was expected ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2]", [1, 2]),
        ('{"value": [1, 2]}', [1, 2]),
        ("  [1,2]\n", [1, 2]),
    ],
)
def test_a_wrapped_type_in_words(api: API, text: str, value: Any) -> None:
    make, _ = maker(text, text, output=list[int])
    result = api.run(make)
    assert result.output == value
    assert "from the text" in result.repairs[0]
    assert api.stream(make).final == value


OBJECT = SEA.model_dump_json()
FROM_TEXT = "read Album from the text of the answer; no tool was called"
FENCED, AROUND = "took the JSON out of a markdown fence", "left out the text around the JSON"


@pytest.mark.parametrize(
    ("text", "repairs"),
    [
        (OBJECT, []),
        (f"```json\n{OBJECT}\n```", [FENCED]),
        (f"Sure {{here}} it is: {OBJECT} Enjoy!", [AROUND]),
        (f"An album:\n~~~\n{OBJECT}\n~~~\n", [FENCED, AROUND]),
        (f"```json\n{OBJECT}", [FENCED]),
        (repr(SEA.model_dump()), ["put double quotes for others"]),
        (OBJECT + OBJECT, ["took one of 2 equal values"]),
    ],
)
def test_an_object_among_words(api: API, text: str, repairs: list[str]) -> None:
    make, _ = maker(text, text)
    result = api.run(make)
    assert (result.output, result.repairs) == (SEA, (FROM_TEXT, *repairs))
    assert api.stream(make).final == SEA


@pytest.mark.parametrize(
    "text",
    [
        f"This: {OBJECT} or that: {SHORT.model_dump_json()}",
        f'This: {OBJECT} or that: {{"title": "B',
        f"```json\n{OBJECT[:-1]}\n```",
        f"The songs are {OBJECT[OBJECT.index('[') :]}",
        'Like {"title": "B"}',
    ],
)
def test_words_that_hold_no_object_or_several(api: API, text: str) -> None:
    make, _ = maker(text, text)
    with pytest.raises(NoToolCallError, match="got 0 tool calls"):
        api.call(make)
    assert isinstance(api.stream(make).error, NoToolCallError)


def test_words_cut_off_behind_their_object_or_inside_it(api: API) -> None:
    make, _ = maker([TextDelta(f"Here: {OBJECT} I ho"), Finish("max_tokens")])
    assert api.call(make) == SEA
    for text in (f"Here: {OBJECT[:-1]}", f"```json\n{OBJECT[:-3]}", f"```json\n{OBJECT[:-1]}\n```"):
        make, _ = maker([TextDelta(text), Finish("max_tokens")])
        with pytest.raises(OutputTruncated, match="before it held the object"):
            api.call(make)


@pytest.mark.parametrize(
    ("output", "text", "value"),
    [
        (list[int], "```json\n[1, 2]\n```", [1, 2]),
        (list[int], "They are [1, 2,].", [1, 2]),
        (bool, "True", True),
        (Song | Apology, "Sorry! {'reason': 'none'}", Apology(reason="none")),
    ],
)
def test_other_values_among_words(api: API, output: Any, text: str, value: Any) -> None:
    make, _ = maker(text, text, output=output)
    assert api.call(make) == value
    assert api.stream(make).final == value


SONG = '{"title": "a", "seconds": 1}'
CALL = f'{{"name": "Song", "arguments": {SONG}}}'
MARKED = [f"<tool_call>\n{CALL}\n</tool_call>", f"[TOOL_CALLS][{CALL}]", f"<|python_tag|>{CALL}", f"Sure: {CALL}"]


@pytest.mark.parametrize(
    "text",
    [
        *MARKED,
        CALL.replace("arguments", "parameters"),
        json.dumps({"type": "function", "function": {"name": "Song", "arguments": SONG}}),
        f"<think>{CALL.replace('a', 'b', 1)}</think>{CALL}",
        f"{CALL} {CALL}",
        f"<function=Song>{SONG}</function>",
        CALL.replace('"name"', '"tool"').replace("arguments", "args"),
        CALL.replace('"', "'"),
        f'{{"tool_calls": [{CALL}]}}',
        f'{{"tool_calls": [{{"id": "1", "type": "function", "function": {CALL}}}]}}',
    ],
)
def test_a_call_that_a_server_left_in_the_text(api: API, text: str) -> None:
    for output in (Song, Song | Apology):
        make, _ = maker(text, text, output=output)
        assert api.call(make) == Song(title="a", seconds=1)
        assert api.stream(make).final == Song(title="a", seconds=1)


@pytest.mark.parametrize("mode", ["tool_call", "prompted"])
@pytest.mark.parametrize("written", [CALL, CALL.replace("arguments", "input"), f'{{"function": {CALL}}}'])
def test_a_call_that_a_model_wrote_in_place_of_its_arguments(api: API, mode: str, written: str) -> None:
    class Easy(BaseModel):
        title: str = "none"
        seconds: int = 0

    for output in (Song, Easy):
        text = written.replace("Song", output.__name__)
        answer = text if mode == "prompted" else ToolCallPart("1", output.__name__, text)
        make, _ = maker(answer, answer, output=output, mode=mode)
        assert api.call(make) == output(title="a", seconds=1)
        assert api.stream(make).final == output(title="a", seconds=1)


def test_a_call_in_the_text_that_is_not_one(api: API) -> None:
    other, wrong = CALL.replace("Song", "Sing"), CALL.replace("1}", '"x"}')
    make, _ = maker(f"<tool_call>{other}</tool_call>", output=Song)
    with pytest.raises(NoToolCallError, match="parser of this model's tool calls"):
        api.call(make)
    make, _ = maker(wrong, output=Song)
    with pytest.raises(ValidationError, match="seconds: Input should be a valid integer"):
        api.call(make)
    for text in (other, '{"arguments": {"title": "a"}}'):
        make, _ = maker(call(text, "Song"), output=Song)
        with pytest.raises(ValidationError, match="title: Field required"):
            api.call(make)
    two = f"{CALL} or {CALL.replace('1', '2')}"
    make, _ = maker(two, output=Song)
    with pytest.raises(NoToolCallError):
        api.call(make)
    make, _ = maker(two, output=Song, allow_parallel_tool_calls=True)
    assert api.call(make) == [Song(title="a", seconds=1), Song(title="a", seconds=2)]

    class Command(BaseModel):
        name: str
        arguments: dict[str, Any]

    text = CALL.replace("Song", "Command")
    make, _ = maker(text, output=Command)
    assert api.call(make) == Command(name="Command", arguments={"title": "a", "seconds": 1})


@pytest.mark.parametrize("raw", ["model_context_window_exceeded", "model_length"])
def test_the_end_of_the_context_window_is_not_max_tokens(api: API, raw: str) -> None:
    for answers in ([TextDelta("So")], [ToolCallStart("1", "Song"), ToolCallDelta("1", '{"title":')]):
        make, _ = maker([*answers, Finish("max_tokens", raw=raw)], output=Song)
        with pytest.raises(OutputTruncated, match=r"the end of the model's context window .*; send shorter messages"):
            api.call(make)


def test_a_small_model_that_does_not_end_is_named() -> None:
    for provider, advised in (("llama.cpp", True), ("openai", False)):
        with pytest.raises(OutputTruncated) as caught:
            reader(Song).validate(ChatResponse(assistant("So so so"), "max_tokens", provider=provider))
        assert ("use a larger model" in str(caught.value)) is advised


@pytest.mark.parametrize("text", ['[2, 3] no: {"value": [1]}', '{"value": [1]} [2]', "- [ ] x: [1]", "[1] [2]"])
@pytest.mark.parametrize("mode", ["prompted", "tool_call"])
def test_several_lists_are_ambiguous_with_and_without_their_wrapper(api: API, text: str, mode: Any) -> None:
    for answer in (text, [call(text, "list_int")]) if mode == "tool_call" else (text,):
        make, _ = maker(answer, answer, output=list[int], mode=mode)
        with pytest.raises((ValidationError, NoToolCallError)):
            api.call(make)
        assert isinstance(api.stream(make).error, (ValidationError, NoToolCallError))


APOLOGY = '{"name": "Apology", "arguments": {"reason": "None."}}'


@pytest.mark.parametrize("chunk", [3, 999])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"For example {APOLOGY}. Answer: {CALL}", "2 different values that fit"),
        (f"```json\n{APOLOGY}\n```\n```json\n{CALL}\n```", "2 different values that fit"),
        (f"{APOLOGY}\n</think>\n{CALL}", "2 different values that fit"),
        (f"{APOLOGY.replace('reason', 'words')} {CALL}", Song(title="a", seconds=1)),
        (f"{CALL} {APOLOGY.replace('reason', 'words')}", Song(title="a", seconds=1)),
        (f"{CALL[:-2]},}},}} ", Song(title="a", seconds=1)),
        (f"{CALL[:-2]} # one\n}}}}", Song(title="a", seconds=1)),
        (CALL.replace("{", "<", 1), "got 0 tool calls"),
        (f"{CALL[:-3]}1x}}}}", "seconds"),
    ],
)
def test_prompted_calls_by_name(api: API, text: str, expected: Any, chunk: int) -> None:
    """Of several calls the one that fits counts, as of several values; one that is no JSON is repaired."""
    llm = ScriptedLLM(text, text, chunk=chunk)
    make = ToolOrchestratingLLM(Song | Apology, "x", llm, mode="prompted")
    if isinstance(expected, str):
        with pytest.raises((ValidationError, NoToolCallError), match=expected):
            api.call(make)
        assert re.search(expected, str(api.stream(make).error))
    else:
        assert api.call(make) == api.stream(make).final == expected


@pytest.mark.parametrize("mode", ["prompted", "tool_call"])
@pytest.mark.parametrize(("one", "other"), [("true", "1"), ('{"a": [true, 1]}', '{"a": [1, true]}')])
def test_true_is_not_1(api: API, mode: Any, one: str, other: str) -> None:
    class Level(BaseModel):
        level: bool | int | dict[str, list[bool | int]]

    make, _ = maker(f'First {{"level": {one}}}. No: {{"level": {other}}}', output=Level, mode=mode)
    with pytest.raises((ValidationError, NoToolCallError), match="2 different values that fit"):
        api.call(make)


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_server_without_a_parser_is_named_after_any_number_of_attempts(api: API, attempts: int) -> None:
    text = "<tool_call><function=Song>a</function></tool_call>"
    make, _ = maker(text, text, output=Song, max_attempts=attempts)
    with pytest.raises(NoToolCallError, match="parser of this model's tool calls"):
        api.call(make)
    with pytest.raises(NoToolCallError, match="parser of this model's tool calls"):
        Engine(ScriptedLLM(text, text), [], max_attempts=attempts).submit("x", output_cls=Song)


@pytest.mark.parametrize("text", ["7 apples", "", "   ", "{", "[1,", '"7"x', "null"])
def test_words_that_are_no_answer(api: API, text: str) -> None:
    make, _ = maker(text, text, output=list[int])
    with pytest.raises(NoToolCallError, match="got 0 tool calls"):
        api.call(make)
    assert isinstance(api.stream(make).error, NoToolCallError)


def test_a_number_in_words_is_the_number(api: API) -> None:
    make, _ = maker("7", "7", output=int)
    assert api.call(make) == 7
    assert api.stream(make).final == 7


def test_the_member_of_a_union_that_words_fit(api: API) -> None:
    text = Song(title="a", seconds=1).model_dump_json()
    make, _ = maker(text, text, output=Song | Apology)
    assert api.call(make) == Song(title="a", seconds=1)
    assert api.stream(make).final == Song(title="a", seconds=1)


def test_long_words_are_shortened() -> None:
    with pytest.raises(NoToolCallError) as caught:
        reader().validate(answer(text="la " * 1000))
    assert len(str(caught.value)) < 700
    assert "…" in str(caught.value)


def test_words_that_were_stopped(api: API) -> None:
    make, _ = maker([TextDelta('{"title": "Sea'), Finish("max_tokens")], [TextDelta("I"), Finish("content_filter")])
    with pytest.raises(OutputTruncated, match="before it held the object") as caught:
        api.call(make)
    assert caught.value.partial.title == "Sea"
    with pytest.raises(ContentBlocked, match="content_filter"):
        api.call(make)


@pytest.mark.parametrize(("stop", "kind"), [("refusal", Refused), ("content_filter", ContentBlocked)])
@pytest.mark.parametrize("truncated", [True, False])
def test_a_call_that_was_stopped(stop: str, kind: type[CallError], truncated: bool) -> None:
    """More tokens would not help, and neither would asking again."""
    half = ToolCallPart("1", "Album", '{"title": "Sea', truncated)
    with pytest.raises(kind, match=f"stopped .{stop}.") as caught:
        reader().validate(answer(half, stop=stop))
    assert caught.value.partial.title == "Sea" and is_partial(caught.value.partial)
    assert (caught.value.tool_name, caught.value.arguments) == ("Album", half.arguments)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("fail_fast", [True, False])
@pytest.mark.parametrize("last", ['{"title": "Sea", "artist": 1}', '{"title": "Sea"', "{", '{"title": "Sea"}', "[]"])
def test_the_partial_result_of_an_error_is_that_of_the_stream(
    last: str, fail_fast: bool, parallel: bool, api: API
) -> None:
    calls = [call(SEA), call(last, id="2"), call(SHORT, id="3")] if parallel else [call(last)]
    make, _ = maker(calls, allow_parallel_tool_calls=parallel)
    with pytest.raises(ValidationError) as plain:
        api.call(make)
    make, _ = maker(calls, allow_parallel_tool_calls=parallel)
    streamed = api.stream(make.with_(fail_fast=fail_fast)).error
    assert isinstance(streamed, ValidationError)
    whole = [SEA, SHORT] if parallel else plain.value.partial
    assert plain.value.partial == whole
    assert streamed.partial in (whole, [SEA])  # it may have been stopped before the last call


# -- asking again -----------------------------------------------------------------------------------------------


def asked_again(*answers: Any, **options: Any) -> Any:
    """What the model is sent after its first answer."""
    make, llm = maker(*answers, max_attempts=2, **options)
    make()
    return llm.requests[1].messages[1:]


@pytest.mark.fault(74, 75)
def test_validation_errors_are_the_result_of_the_call() -> None:
    bad = call('{"title": 1, "artist": "b", "songs": [{"title": "c"}]}')
    answered, retry = asked_again(bad, SEA)
    assert answered.tool_calls == (bad,)
    (result,) = retry.parts
    assert result.is_error
    assert result.call_id == bad.id
    assert "- title: Input should be a valid string" in result.content
    assert "- songs.0.seconds: Field required" in result.content


def test_a_fault_of_the_whole_has_no_path() -> None:
    (_, retry) = asked_again(call("[]"), SEA)
    assert "- arguments: " in retry.parts[0].content


def test_each_of_several_calls_gets_its_own_error() -> None:
    calls = [call(SEA, id="1"), call('{"title": 1}', id="2"), call(SHORT, id="3"), call("[]", id="4")]
    answered, *results = asked_again([*calls, call(SEA, "Albumen", id="5")], SEA, allow_parallel_tool_calls=True)
    assert answered.tool_calls[:3] == tuple(calls[:3])
    texts = [result.parts[0].content for result in results]
    assert texts[0] == texts[2] == "Not used, call again."
    assert "- title: Input should be a valid string" in texts[1] and "songs" in texts[1]
    assert "- arguments: Input should be an object" in texts[3]
    assert "'Albumen'; it was offered: Album" in texts[4]


@pytest.mark.parametrize("id", ["", "call"])
def test_calls_with_equal_ids_get_their_own_errors(id: str) -> None:
    calls = [call(SEA, id=id), call('{"title": 1}', id=id), call("[]", id=id)]
    answered, *results = asked_again(calls, SEA, allow_parallel_tool_calls=True)
    assert [part.id for part in answered.tool_calls] == ["call", "call-2", "call-3"]
    assert [part.arguments for part in answered.tool_calls[:2]] == [each.arguments for each in calls[:2]]
    texts = [result.parts[0].content for result in results]
    assert texts[0] == "Not used, call again."
    assert "- title: " in texts[1]
    assert "- arguments: " in texts[2]


def test_the_errors_of_all_calls_are_reported() -> None:
    make, _ = maker([call("{}", id="1"), call(SEA, id="2"), call("[]", id="3")], allow_parallel_tool_calls=True)
    with pytest.raises(ValidationError) as caught:
        make()
    (other,) = caught.value.others
    assert (caught.value.call_id, other.call_id, other.arguments) == ("1", "3", "[]")
    assert "the call '3' failed too: the arguments for Album do not fit" in caught.value.__notes__[0]


DEEP = '{"a":' + "[" * 2000


@pytest.mark.parametrize("arguments", ["{", "[]", "7", DEEP, '{"title": NaN}', '{"title": 1e999}'])
def test_arguments_that_services_cannot_read_are_sent_back_in_an_object_and_in_the_result(arguments: str) -> None:
    (answered, retry) = asked_again(call(arguments, opaque={"signature": "s"}), SEA)
    assert answered.tool_calls == (call(json.dumps({"malformed": arguments}), opaque={"signature": "s"}),)
    shown = arguments if len(arguments) < 400 else f"{arguments[:400]}…"
    assert retry.parts[0].content.endswith(f"\nYou wrote: {shown!r}")


def test_the_text_before_a_call_is_sent_back_with_it() -> None:
    answered, _ = retry_messages([], answer(call("{}"), text="One moment."), ValidationError("no"))
    assert answered == assistant("One moment.", call("{}"))


def test_missing_arguments_are_sent_back_as_an_empty_object() -> None:
    (answered, _) = asked_again(call(""), SEA)
    assert answered.tool_calls == (call("{}"),)


def test_hidden_arguments_are_not_in_the_result() -> None:
    *_, retry = retry_messages([], answer(call('["hidden')), ValidationError("no"), hide_input=True)
    assert "hidden" not in str(retry)


def test_every_call_gets_a_result() -> None:
    bad = [call("{"), call(SEA, id="2"), call(SHORT, id="3")]
    answered, retry = asked_again(bad, [call(SEA)], allow_parallel_tool_calls=True)[0:2]
    messages = asked_again(bad, [call(SEA)], allow_parallel_tool_calls=True)
    assert [part.id for part in answered.tool_calls] == ["call_1", "2", "3"]
    results = [part for message in messages[1:] for part in message.parts]
    assert [result.call_id for result in results] == ["call_1", "2", "3"]
    assert "not valid" in retry.parts[0].content
    assert [result.content for result in results[1:]] == ["Not used, call again."] * 2


def test_text_stays_in_the_history_and_an_empty_answer_is_marked() -> None:
    answered, retry = asked_again("I cannot.", SEA)
    assert answered == assistant("I cannot.")
    assert retry.role == "user"
    assert retry.text.endswith("Answer again: call the tool, or write its JSON where you were asked for that.")
    assert "max_attempts" not in retry.text
    answered, _ = asked_again([Finish("end_turn")], SEA)
    assert answered == assistant("(no answer)")


def test_an_error_without_details_is_sent_as_its_message() -> None:
    response = answer(call(SEA))
    for error in (TryAgain("shorter, please"), UnknownToolError("shorter, please"), ValidationError("shorter, please")):
        *history, _, retry = retry_messages([user("x")], response, error)
        assert history == [user("x")]
        assert retry.parts[0].content == "shorter, please"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"title": NaN}', "NaN is not a JSON number at line 1, column 11, in ['title']"),
        ('Here you are:\n```json\n{"title": 1e400}\n``` Enjoy!', "1e400 is too large for a float"),
        ("{'title': [-inf]}", "-Infinity is not a JSON number"),
        ('{"title": "' + "a" * 500 + '", "songs": nan}', "NaN is not a JSON number"),
    ],
)
def test_a_number_that_json_does_not_have_is_named(api: API, text: str, named: str) -> None:
    for form in (Album, list[float], Album | Apology):
        with pytest.raises(NoToolCallError) as caught:
            api.call(ToolOrchestratingLLM(form, "x", ScriptedLLM(text)))
        assert named in str(caught.value)
        streamed = api.stream(ToolOrchestratingLLM(form, "x", ScriptedLLM(text))).error
        assert str(streamed) == str(caught.value)
    with pytest.raises(ValidationError, match=re.escape(named)):
        api.call(ToolOrchestratingLLM(Album, "x", ScriptedLLM(ToolCallPart("1", "Album", text))))


def test_invalid_json_in_text_is_explained_in_the_error_and_the_retry_messages(api: API) -> None:
    wrong = '{"title": 5, "artist": "Ada", "songs": []}'
    with pytest.raises(NoToolCallError, match="1 error: title: Input should be a valid string, got 5") as caught:
        api.call(ToolOrchestratingLLM(Album, "x", ScriptedLLM(wrong)))
    assert isinstance(caught.value.__cause__, ValidationError)
    llm = ScriptedLLM(wrong, SEA)
    assert api.call(ToolOrchestratingLLM(Album, "x", llm, max_attempts=2)) == SEA
    assert "title: Input should be a valid string" in llm.requests[1].messages[-1].text
