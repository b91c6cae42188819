"""Prompted tool calls: the description of the tools, and the parser of the calls, on whole and cut text."""

from __future__ import annotations

import json
import re
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ValidationError

from toolcast.events import Event, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallDone, ToolCallStart
from toolcast.messages import (
    ImagePart,
    Message,
    ResultImage,
    ToolCallPart,
    ToolResultPart,
    assistant,
    system,
    tool_result,
    user,
)
from toolcast.parsing.lenient_json import parse_lenient
from toolcast.parsing.tool_arguments import parse_json
from toolcast.providers.base import RequestInput
from toolcast.providers.tool_calls.json_calls import CallFormat, call_format
from toolcast.providers.tool_calls.prompted_calls import PromptedCalls, to_prompted_messages
from toolcast.values.tool_spec import NamedTool, ToolChoice, ToolSpec

ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
SING = ToolSpec("sing", "Sings.", {"type": "object"})
ONE, EITHER, SEVERAL = CallFormat((ADD,)), CallFormat((ADD, SING)), CallFormat((ADD,), parallel=True)
FENCED = 'Sure:\n```json\n{"a": {"b": "}{"}}\n```\nHave {fun}!'


def read(pieces: list[str], form: CallFormat, *, cut: bool = False) -> list[Event]:
    """The events of the pieces, neighbouring deltas joined."""
    calls = PromptedCalls(form, before=2)
    out: list[Event] = []
    for event in [*(e for piece in pieces for e in calls.feed(piece)), *calls.finish(cut=cut)]:
        last = out[-1] if out else None
        if isinstance(event, ToolCallDelta) and isinstance(last, ToolCallDelta):
            out[-1] = ToolCallDelta(event.id, last.arguments + event.arguments)
        elif isinstance(event, TextDelta) and isinstance(last, TextDelta):
            out[-1] = TextDelta(last.text + event.text)
        elif isinstance(event, ThinkingDelta) and isinstance(last, ThinkingDelta):
            out[-1] = ThinkingDelta(last.text + event.text)
        else:
            out.append(event)
    return out


def events(text: str, form: CallFormat = ONE, *, cut: bool = False) -> list[Event]:
    """The events of `text`, the same character by character and for every cut in two."""
    whole = read([text], form, cut=cut)
    assert read(list(text), form, cut=cut) == whole
    for at in range(0, len(text), 1 + len(text) // 30):
        assert read([text[:at], text[at:]], form, cut=cut) == whole, at
    return whole


def call(arguments: str, name: str = "add", *, truncated: bool = False) -> list[Event]:
    return [
        ToolCallStart("call_3", name),
        ToolCallDelta("call_3", arguments),
        ToolCallDone("call_3", name, arguments, truncated),
    ]


@pytest.mark.parametrize(
    ("text", "before", "arguments", "after"),
    [
        ('{"a": 1}', "", '{"a": 1}', ""),
        (FENCED, "Sure:\n```json\n", '{"a": {"b": "}{"}}', "\n```\nHave {fun}!"),
        ('Use {braces} so: {"a": 1}', "Use {braces} so: ", '{"a": 1}', ""),
        ('{"a": 1} and {"a":1}', "", '{"a": 1}', ' and {"a":1}'),
        ("{}", "", "{}", ""),
        ("It is {'a': 1}. Bye", "It is ", "{'a': 1}. Bye", ""),
        ("{a: 1, /* so */}", "", "{a: 1, /* so */}", ""),
        ("{ // none\n}", "", "{ // none\n}", ""),
    ],
)
def test_the_object_in_the_text(text: str, before: str, arguments: str, after: str) -> None:
    *begun, done = call(arguments)
    texts = [[TextDelta(text)] if text else [] for text in (before, after)]
    assert events(text) == [*texts[0], *begun, *texts[1], done]


class Add(BaseModel):
    a: int


ARGUMENTS = Add.__pydantic_validator__
LISTS = CallFormat((ToolSpec("list", "Lists.", {"type": "object", "properties": {"value": {"type": "array"}}}),))
NO, YES = '{"a": 1}', '{"a": 2}'


@pytest.mark.parametrize(
    "text",
    [
        f"maybe {NO}\n</think>\n{YES}",
        f"maybe {{'a': 1}} or so\n</think>\n{YES}",
        f'maybe {{"a": ..., "b": 1}} or so\n</think>\n{YES}',
        f"{NO} or {{}}</think >{YES}",
        f"Sure. <thinking>{NO}</thinking>\n{YES}",
        f"<reasoning>{NO}</reasoning>{YES}",
        f"[THINK]{NO}[/THINK]{YES}",
        f"◁think▷{NO}◁/think▷{YES}",
        f"<|channel|>analysis<|message|>{NO}<|end|><|channel|>final <|constrain|>json<|message|>{YES}",
        f"{NO}<|channel|>final<|message|>{YES}",
        f"<think>{NO}</think>{{}}</think>{YES} {YES}",
        f"{YES} <think>or {NO}",
    ],
)
@pytest.mark.parametrize("form", [ONE, EITHER])
def test_a_thought_is_not_an_answer(text: str, form: CallFormat) -> None:
    if form is EITHER:  # a call at the very beginning is no thought
        prose = "" if text.startswith(YES) else "Hm. "
        text = prose + re.sub(r"(\{.?a.?: [12]\})", r'{"name": "add", "arguments": \1}', text)
    made = {e.id: e for e in events(text, form) if isinstance(e, ToolCallDone)}
    assert [json.loads(done.arguments) for done in made.values()] == [{"a": 2}]


@pytest.mark.parametrize("text", [f"{NO}\n</think>", f"maybe {NO}</think>I do not know.", f"`<think>` {NO}</think> No"])
def test_without_an_answer_behind_a_thought_the_arguments_are_no_json(text: str) -> None:
    done = events(text)[-1]
    assert isinstance(done, ToolCallDone)
    assert done.arguments == f"{NO}</think>"


def test_a_thought_inside_an_object_is_a_part_of_it() -> None:
    text = "{'a': <think>one or two</think> 1}"
    done = events(text)[-1]
    assert isinstance(done, ToolCallDone)
    assert done.arguments == text


def test_text_may_follow_an_open_object() -> None:
    calls = PromptedCalls(ONE)
    calls.feed('{"a": ')
    assert calls.open_call is None


PIECES = [
    "so",
    " ",
    "\n",
    "`",
    "{x}",
    NO,
    YES,
    '{"b": 1}',
    "{'a': 2}",
    '{"a": .',
    "```json\n",
    "<think>",
    "</think>",
    "[1]",
]


@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_the_value_in_a_text_is_the_same_as_that_in_arguments(text: str) -> None:
    def value_in(arguments: str) -> object:
        with suppress(ValidationError):
            return parse_json(ARGUMENTS, arguments)[0]
        return None

    done = [e for e in events(text) if isinstance(e, ToolCallDone)]
    assert value_in(done[-1].arguments if done else "") == value_in(text)


def test_different_objects_are_one_call_that_is_ambiguous_or_several_calls() -> None:
    assert events(f"{NO} no, {YES}!")[-1] == ToolCallDone("call_3", "add", NO + YES)
    calls = [f'{{"name": "sing", "arguments": {arguments}}}' for arguments in (NO, YES)]
    made = [e for e in events(f"{calls[0]} {{'b'}} {calls[1]} {calls[0]}", EITHER) if isinstance(e, ToolCallDone)]
    assert [done.arguments for done in made] == [NO]
    made = [e for e in events(f'{calls[0]} {{"b": 1}} {calls[1]} {calls[0]}', EITHER) if isinstance(e, ToolCallDone)]
    assert [done.arguments for done in made] == [NO, YES]


def test_lists_where_lists_are_read() -> None:
    assert events(f"So [x] [{NO}]!", LISTS)[-1] == ToolCallDone("call_3", "list", f"[{NO}]")
    assert events(f"So [{NO}]!")[-1] == ToolCallDone("call_3", "add", NO)
    assert events("- [ ] check [it](b) [true]", LISTS)[-1] == ToolCallDone("call_3", "list", "[ ][true]")
    assert events("[ // one\n1]", LISTS)[-1] == ToolCallDone("call_3", "list", "[ // one\n1]")


BLANK = " " * 99


@pytest.mark.parametrize("text", ["", "No.", "a {b} c", "{", "{ ab", "{ /x", "{" + BLANK, "{ " + BLANK + "'", "[1]"])
def test_text_without_an_object_stays_text(text: str) -> None:
    assert events(text) == ([TextDelta(text)] if text else [])


def test_several_tools_are_named() -> None:
    text = 'Well: {"name": "sing", "arguments": {"b": 1}} there'
    assert events(text, EITHER) == [TextDelta("Well: "), *call('{"b": 1}', "sing"), TextDelta(" there")]
    assert events('a {"b": 1} c', EITHER) == [TextDelta('a {"b": 1} c')]
    assert events('{"name": "sing", "arguments": {', EITHER, cut=True)[-1] == ToolCallDone("call_3", "sing", "{", True)


def test_several_calls() -> None:
    made = [e for e in events('{"calls": [{"a": 1}, {"a": 2}]}!', SEVERAL) if isinstance(e, ToolCallDone)]
    assert [done.arguments for done in made] == ['{"a": 1}', '{"a": 2}']


def test_an_object_that_was_cut_off() -> None:
    assert events('Sure: {"a": "b', cut=True) == [TextDelta("Sure: "), *call('{"a": "b', truncated=True)]
    assert events('Sure: {"a": "b') == [TextDelta("Sure: "), *call('{"a": "b')]


@given(
    st.dictionaries(st.text(), st.recursive(st.text() | st.integers() | st.none(), st.lists)),
    st.text("ab \n`.", max_size=9),
)
def test_any_object_is_found_behind_any_prose(value: object, prose: str) -> None:
    text = json.dumps(value)
    (done,) = [e for e in read(list(f"{prose}{text}{prose}"), ONE) if isinstance(e, ToolCallDone)]
    assert done.arguments == text


@given(st.text("{}[]'\"a: ,\n/", max_size=30))
def test_nothing_is_lost_of_any_text(text: str) -> None:
    found = events(text)
    message = [
        e.text if isinstance(e, TextDelta) else e.arguments for e in found if isinstance(e, (TextDelta, ToolCallDelta))
    ]
    assert "".join(message) == text


@pytest.mark.parametrize("size", [1, 7, 99])
def test_a_draft_in_a_thought_is_not_the_object(size: int) -> None:
    text = '\n<think>So {"a": 1}?</think>\n{"a": 2}'
    found = read([text[at : at + size] for at in range(0, len(text), size)], ONE)
    assert "".join(e.text for e in found if isinstance(e, ThinkingDelta)) == 'So {"a": 1}?'
    assert [e for e in found if not isinstance(e, ThinkingDelta)] == call('{"a": 2}')
    assert "".join(e.text for e in read(["<think>", '{"a": 1}</th'], ONE) if isinstance(e, ThinkingDelta)) == (
        '{"a": 1}</th'
    )


@pytest.mark.parametrize("text", ['{"name": "Ann", "age": 3}', '{"age": 3, "name": "Ann"}', '{"name": "Ann"}'])
def test_a_name_that_is_a_field_makes_no_call(text: str) -> None:
    """A model that leaves out the call around its object, which is then read from the text."""
    assert events(text, EITHER) == [TextDelta(text)]


@pytest.mark.parametrize("text", ['{"name": "fish", "arguments": {"b": 1}}', '{"arguments": {"b": 1}, "name": "fish"}'])
def test_a_call_of_no_tool_is_one(text: str) -> None:
    assert events(text, EITHER) == call('{"b": 1}', "fish")


def test_invalid_json_is_repaired_later() -> None:
    done = events("It is {'a': 1,}. Bye")[-1]
    assert isinstance(done, ToolCallDone)
    (repaired,) = parse_lenient(done.arguments)
    assert json.loads(repaired.text) == {"a": 1}


# -- the question


def asked(*messages: Message, tools: tuple[ToolSpec, ...] = (ADD,), choice: ToolChoice = None) -> list[Message]:
    conversation = RequestInput("m", messages, tools, choice or NamedTool("add"), mode="prompted")
    form = call_format(conversation)
    assert form is not None
    return list(to_prompted_messages(messages, form))


def test_tools_stand_in_the_system_message() -> None:
    first, *rest = asked(system("Be terse."), user("1 and 2"))
    assert first.role == "system" and first.text.startswith("Be terse.\n\nadd: Adds.\n\nAnswer with JSON")
    assert json.dumps(ADD.parameters) in first.text
    assert rest == [user("1 and 2")]
    (alone, _) = asked(user("1 and 2"))
    assert alone.text.startswith("add: Adds.")


def test_a_choice_is_left_where_none_is_forced() -> None:
    first, _ = asked(user("Hi"), tools=(ADD, SING), choice="auto")
    assert first.text.startswith("You can use these tools.") and first.text.endswith("answer in words.")


def test_images_of_a_result_are_shown() -> None:
    image = ImagePart(url="https://x/y.png")
    _, shown = asked(Message("tool", (ToolResultPart("c1", "a chart", "plot", images=(image,)),)))
    assert shown == user("plot returned: a chart", ResultImage(url=image.url))


def test_the_history_becomes_text() -> None:
    one = ToolCallPart("c1", "add", '{"a":1}')
    image = ImagePart(url="https://x/y.png")
    _, *rest = asked(
        user("Hi", image), assistant("Hm. ", one), tool_result(one, "3"), tool_result(one, "no", is_error=True)
    )
    assert rest == [
        user("Hi", image),
        assistant("Hm. ", '{"a": 1}'),
        user("add returned: 3"),
        user("add failed: no"),
    ]
