"""Prompt templates: grammar of variables, checks of a call, and values that are not text."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from pydantic import BaseModel, Field, computed_field

from toolcast import ToolOrchestratingLLM
from toolcast.errors import PromptError
from toolcast.messages import (
    AudioPart,
    CachePoint,
    DocumentPart,
    FileRef,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
    assistant,
    system,
    user,
)
from toolcast.prompts import ChatPromptTemplate, PromptTemplate, as_prompt
from toolcast.testing import ScriptedLLM

CAT = ImagePart(url="https://example.org/cat.png")
DOG = ImagePart(data=b"dog", media_type="image/png")


class Album(BaseModel):
    title: str
    artist: str = Field("unknown", alias="by")


SEA = Album(title="Sea", by="Waves")


@dataclass
class Point:
    x: int


def escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


IDENTIFIERS = (
    st.text(st.characters(categories=["L", "N", "Pc"]), min_size=1, max_size=6)
    .map(lambda name: unicodedata.normalize("NFKC", name))
    .filter(lambda name: name.isidentifier() and name != "stream")
)
PIECES = st.lists(st.tuples(st.booleans(), st.text(max_size=8), IDENTIFIERS), max_size=6)


# Grammar


@given(st.text())
@example("{}{{}}}{")
def test_doubled_braces_format_back_to_the_text(text: str) -> None:
    assert PromptTemplate(escaped(text)).format() == text


@pytest.mark.fault(135)
@given(PIECES, st.data())
def test_values_are_inserted_once_and_verbatim(pieces: list[tuple[bool, str, str]], data: st.DataObject) -> None:
    template = "".join(f"{{{name}}}" if hole else escaped(text) for hole, text, name in pieces)
    names = {name for hole, _, name in pieces if hole}
    values = {name: data.draw(st.text() | st.sampled_from(["{a}", "{{", "}", *names])) for name in names}
    expected = "".join(values[name] if hole else text for hole, text, name in pieces)
    prompt = PromptTemplate(template)
    assert prompt.format(**values) == expected
    assert prompt.format_messages(**values) == [user(expected)]


@given(st.text(st.sampled_from("{}ab.[ \n")))
def test_any_text_compiles_or_is_an_error_with_its_place(text: str) -> None:
    try:
        prompt = PromptTemplate(text)
    except PromptError as error:
        assert "double it" in str(error)
    else:
        assert prompt.format(**dict.fromkeys(prompt.variables, "")).count("{") == text.count("{{")


def test_holes_are_in_order_and_each_once() -> None:
    assert PromptTemplate("{b} {a} {{c}} {b}").variables == ("b", "a")
    chat = ChatPromptTemplate([("system", "{b}"), "{a} {b}"])
    assert chat.variables == ("b", "a")


@pytest.mark.fault(135)
@pytest.mark.parametrize(
    ("template", "where", "shown"),
    [
        ("{x.__class__}", "line 1, column 1", "{x.__class__}"),
        ("a {x[0]}", "line 1, column 3", "{x[0]}"),
        ("a\nbc {x!r}", "line 2, column 4", "{x!r}"),
        ("{x:>10}", "line 1, column 1", "{x:>10}"),
        ("{}", "line 1, column 1", "{}"),
        ("{0}", "line 1, column 1", "{0}"),
        ("{ x }", "line 1, column 1", "{ x }"),
        ("}", "line 1, column 1", "}"),
        ("{", "line 1, column 1", "{"),
        ('{"a": {"b": 1}}', "line 1, column 1", '{"a": {"b": 1}'),
        ("{x}}", "line 1, column 4", "}"),
        ("{{x}", "line 1, column 4", "}"),
        ("{" + "a b" * 99 + "}", "line 1, column 1", ("{" + "a b" * 99)[:40]),
    ],
)
def test_every_other_brace_is_an_error(template: str, where: str, shown: str) -> None:
    with pytest.raises(PromptError) as caught:
        PromptTemplate(template)
    assert where in str(caught.value)
    assert repr(shown) in str(caught.value)


@pytest.mark.parametrize("name", ["stream", "self"])
def test_parameters_of_a_call_are_reserved(name: str) -> None:
    for make in (PromptTemplate, lambda text: ChatPromptTemplate([("user", text)])):
        with pytest.raises(PromptError, match=f"no variable can be named '{name}'"):
            make(f"about {{{name}}}")


def test_a_brace_that_is_text_is_an_error_that_shows_both_ways_to_send_it() -> None:
    with pytest.raises(PromptError) as caught:
        PromptTemplate('Answer like {"title": "Sea"}')
    assert "double it: {{ or }}" in str(caught.value)
    assert "write {text} and pass the text as a value, text=..." in str(caught.value)


def test_data_that_looks_like_a_variable_is_an_error_that_shows_the_escape() -> None:
    with pytest.raises(PromptError, match=r"no value for the variable 'x' \(to send the braces as text, write {{x}}\)"):
        PromptTemplate("what is {x}?").format()


def test_a_message_is_data() -> None:
    """As in LangChain: strings and tuples are templates, message objects are sent as they are."""
    data = [user("what is {x}?"), assistant('{"a": {}}'), user("{", TextPart("{{}}"))]
    llm = ScriptedLLM(SEA)
    ToolOrchestratingLLM(Album, [*data, "about {topic}"], llm)(topic="{rain}")
    assert llm.requests[0].messages == (*data, user("about {rain}"))


def test_names_of_holes_are_normalised_as_python_normalises_keywords() -> None:
    assert PromptTemplate("{ﬁsh}").format(ﬁsh="cod") == "cod"


# Values


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["no value for the variable 'topic'", "the variables are: topic, other"]),
        (
            {"topic": "a", "othre": "b"},
            ["the variable 'other' (you passed 'othre')", "'othre' (did you mean 'other'?)"],
        ),
        ({"topic": "a", "other": "b", "tropic": 1}, ["no variable is named 'tropic' (did you mean 'topic'?)"]),
        ({"topic": "a", "other": "b", "zzz": 1}, ["no variable is named 'zzz'; the variables"]),
        (
            {"topic": None, "other": "b"},
            ["no value for the variable 'topic' (None is no value: pass '' for nothing)"],
        ),
    ],
)
def test_missing_and_unknown_variables(given: dict[str, Any], expected: list[str]) -> None:
    prompt = PromptTemplate("about {topic}, {other}")
    for fill in (prompt.format, prompt.format_messages, ChatPromptTemplate([prompt]).format_messages):
        with pytest.raises(PromptError) as caught:
            fill(**given)
        assert all(words in str(caught.value) for words in expected)


def test_a_value_for_a_prompt_without_holes() -> None:
    with pytest.raises(PromptError, match="no variable is named 'self'; the prompt has no variables"):
        PromptTemplate("x").format(self=1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        ("", ""),
        (1.5, "1.5"),
        ([], "[]"),
        (["a"], "['a']"),
        (Point(1), "Point(x=1)"),
        (SEA, '{"title":"Sea","artist":"Waves"}'),
        (Album, str(Album)),
    ],
)
def test_values_become_text(value: object, text: str) -> None:
    assert PromptTemplate("<{x}>").format(x=value) == f"<{text}>"
    assert PromptTemplate("<{x}>").format_messages(x=value) == [user(f"<{text}>")]
    assert ChatPromptTemplate([("assistant", "<{x}>")]).format_messages(x=value) == [assistant(f"<{text}>")]


@pytest.mark.parametrize("value", [SEA, 5, {"a": 1}])
def test_an_object_alone_in_a_user_message_is_text(value: object) -> None:
    [message] = PromptTemplate("{x}").format_messages(x=value)
    assert message == user(PromptTemplate("{x}").format(x=value))


def test_images_stand_between_the_text_around_them() -> None:
    prompt = PromptTemplate("Compare {a} with {b}, {how}")
    assert prompt.format_messages(a=CAT, b=[DOG, CAT], how="please") == [
        user("Compare ", CAT, " with ", DOG, CAT, ", please")
    ]


@pytest.mark.parametrize(
    "part",
    [
        CAT,
        AudioPart(url="u"),
        VideoPart(url="u"),
        DocumentPart(data=b"x", media_type="application/pdf"),
        FileRef("openai", "file-1"),
    ],
)
def test_media_alone_and_beside_blank_text(part: ImagePart) -> None:
    assert PromptTemplate("{x}").format_messages(x=part) == [user(part)]
    assert PromptTemplate("{x}\n{y} ").format_messages(x=part, y=part) == [user(part, part)]
    assert ChatPromptTemplate([("assistant", "{x}")]).format_messages(x=part) == [assistant(part)]
    with pytest.raises(PromptError, match=r"format_messages\(\)"):
        PromptTemplate("{x}").format(x=part)


@pytest.mark.parametrize("value", [user("hi"), [user("hi"), assistant("ho")]])
def test_messages_do_not_fit_among_words(value: object) -> None:
    with pytest.raises(PromptError, match="must consist of this variable alone"):
        PromptTemplate("as expected: {history}").format_messages(history=value)


# Messages


def test_a_message_that_is_only_a_hole_takes_messages() -> None:
    history = [user("hi {x}"), assistant("ho")]
    chat = ChatPromptTemplate([("system", "Be {how}."), "\n{history}\n", ("user", "{last}")])
    assert chat.format_messages(how="brief", history=history, last=user("bye")) == [
        system("Be brief."),
        *history,
        user("bye"),
    ]
    assert chat.format_messages(how="brief", history=[], last="") == [system("Be brief."), user("")]
    assert PromptTemplate("{x}").format_messages(x=history) == history


def test_what_a_chat_is_made_of() -> None:
    call = ToolCallPart("c", "f", '{"a": "{x}"}')
    chat = ChatPromptTemplate.from_messages(
        [
            "{a}",
            ("system", PromptTemplate("{b}")),
            PromptTemplate("{c}"),
            ChatPromptTemplate(["{d}"]),
            ("user", ["look: {a}", CAT, "{{"]),
            ("user", DOG),
            ("assistant", (ThinkingPart("{x}"), TextPart("{e}"), call)),
            user("{y} ", "{", '{"z": 1}', "{{"),
            Message("tool", (ToolResultPart("c", "{x}"),)),
        ]
    )
    assert chat.variables == ("a", "b", "c", "d", "e")
    assert chat.format_messages(a="1", b="2", c="3", d="4", e="5") == [
        user("1"),
        system("2"),
        user("3"),
        user("4"),
        user("look: 1", CAT, "{"),
        user(DOG),
        Message("assistant", (ThinkingPart("{x}"), TextPart("5"), call)),
        user("{y} ", "{", '{"z": 1}', "{{"),
        Message("tool", (ToolResultPart("c", "{x}"),)),
    ]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], "list of messages, not list"),
        ("text", "list of messages, not str"),
        ([5], r"a Message, a dict .*, a \(role, text\) tuple, a str or a template, not int \(5\)"),
        ([("user", "a", "b")], "not tuple"),
        ([("asistant", "a")], "unknown role 'asistant' .did you mean 'assistant'"),
        ([("user", "{")], "double it"),
        ([("user", [TextPart("{"), CAT])], "double it"),
    ],
)
def test_what_no_chat_is_made_of(messages: Any, expected: str) -> None:
    with pytest.raises(PromptError, match=expected):
        ChatPromptTemplate(messages)


def test_changing_the_list_afterwards_changes_nothing() -> None:
    messages: list[Any] = ["a"]
    chat = ChatPromptTemplate(messages)
    messages.append("b")
    assert chat == ChatPromptTemplate(["a"])
    assert chat.format_messages() == [user("a")]


# Few-shot objects


def answered(call: ToolCallPart) -> list[Message]:
    return [assistant(call), Message("tool", (ToolResultPart(call.id, "OK", call.name),))]


@pytest.mark.parametrize(
    ("value", "name", "arguments"),
    [
        (SEA, "Album", {"title": "Sea", "by": "Waves"}),
        (Point(3), "Point", {"x": 3}),
        ({"a": 1}, "dict", {"a": 1}),
        ([SEA], "list", {"value": [{"title": "Sea", "by": "Waves"}]}),
    ],
)
def test_an_object_of_the_assistant_becomes_a_call(value: Any, name: str, arguments: Any) -> None:
    by_hole = ChatPromptTemplate([("assistant", "{x}")]).format_messages(x=value)
    written: Any = [("assistant", value)]
    assert ChatPromptTemplate(written).format_messages() == by_hole
    parts: Any = (value,)
    assert ChatPromptTemplate([Message("assistant", parts)]).format_messages() == by_hole
    assert PromptTemplate("{x}").format_messages(x=Message("assistant", parts)) == by_hole
    [call] = by_hole[0].tool_calls
    assert (call.name, json.loads(call.arguments)) == (name, arguments)
    assert by_hole == answered(call)


@pytest.mark.parametrize("value", [5, True, object()])
def test_what_is_no_object_in_json_stays_text(value: object) -> None:
    assert ChatPromptTemplate([("assistant", value)]).format_messages() == [assistant(str(value))]


def test_an_object_of_another_role_is_text() -> None:
    assert ChatPromptTemplate([("user", SEA)]).format_messages() == [user(SEA.model_dump_json())]


def test_computed_fields_are_no_arguments() -> None:
    class Square(BaseModel):
        side: int

        @computed_field
        def area(self) -> int:
            return self.side**2

    [message, _] = ChatPromptTemplate([("assistant", Square(side=2))]).format_messages()
    assert message.tool_calls[0].arguments == '{"side":2}'


def test_every_call_has_its_own_id() -> None:
    parts: Any = ("Two:", SEA, Point(1))
    taken = ToolCallPart("example01", "f")
    chat = ChatPromptTemplate(["{history}", Message("assistant", parts), ("assistant", "{x}"), "go"])
    messages = chat.format_messages(history=answered(taken), x=SEA)
    assert [call.id for message in messages for call in message.tool_calls] == [
        "example01",
        "example02",
        "example03",
        "example04",
    ]
    assert [message.role for message in messages] == [
        *("assistant", "tool"),
        *("assistant", "tool", "tool"),
        *("assistant", "tool"),
        "user",
    ]


def test_the_caller_decides_what_the_call_is() -> None:
    def as_calls(value: object) -> list[ToolCallPart]:
        return [ToolCallPart("", "make", "{}")] if isinstance(value, Album) else []

    chat = ChatPromptTemplate([("assistant", "{x}"), ("assistant", "{y}")])
    messages = chat.fill({"x": SEA, "y": Point(1)}, as_calls)
    assert messages == [*answered(ToolCallPart("example01", "make", "{}")), assistant("Point(x=1)")]
    assert PromptTemplate("{x}").fill({"x": SEA}, as_calls) == [user(SEA.model_dump_json())]


# as_prompt


def test_as_prompt() -> None:
    prompt, chat = PromptTemplate("{a}"), ChatPromptTemplate(["{a}"])
    assert as_prompt("{a}") == prompt
    assert as_prompt(prompt) is prompt
    assert as_prompt(chat) is chat
    assert as_prompt(["{a}"]) == chat


@pytest.mark.parametrize("wrong", [5, None, b"x", ("user", "hi"), user("hi"), Album])
def test_as_prompt_names_what_it_got(wrong: object) -> None:
    with pytest.raises(PromptError, match=f"not {type(wrong).__name__} "):
        as_prompt(wrong)


def test_a_template_is_a_str() -> None:
    wrong: Any = 5
    with pytest.raises(PromptError, match="a template is a str, not int"):
        PromptTemplate(wrong)


def test_templates_are_values() -> None:
    assert PromptTemplate("{a}") == PromptTemplate("{a}") != PromptTemplate("{b}")
    assert repr(PromptTemplate("{a}")) == "PromptTemplate(template='{a}')"


def test_parts_are_parts_and_nothing_is_its_address() -> None:
    template = PromptTemplate("Read {x}!")
    text, point = TextPart("this"), CachePoint()
    for value, parts in ((text, (text,)), (point, (point,)), ([text, point], (text, point))):
        [message] = template.format_messages(x=value)
        assert message.parts == (TextPart("Read "), *parts, TextPart("!"))
    for value in (object(), (number for number in range(3)), lambda: 1, object.__new__(type("Mine", (), {}))):
        with pytest.raises(PromptError, match=r"the variable 'x' has .*, which has no text of its own: pass a str"):
            template.format_messages(x=value)
    with pytest.raises(PromptError, match="which cannot be text"):
        template.format(x=point)
