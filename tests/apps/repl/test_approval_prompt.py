"""Asking a person about calls: what is shown, what each answer is, and that nothing unclear is a yes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from support.scripted_screen import ScriptedScreen
from toolcast import CallableTool, Engine, PermissionRequest, Permissions, ToolcastError
from toolcast.apps.repl.approval_prompt import QUESTION, WHY, CallDescriber, ask_permissions
from toolcast.apps.repl.choices import Answer, Choice
from toolcast.testing import ScriptedLLM


def write_file(path: str, content: str) -> str:
    """Write a file."""
    return path + content


def remove(path: str) -> str:
    """Remove a file."""
    return path


def shell(command: str) -> str:
    """Run a command."""
    return command


ENGINE = Engine(ScriptedLLM(), [write_file, remove, shell], permissions=Permissions(approve="later"))
DESCRIBER = CallDescriber(ENGINE)
REQUEST = PermissionRequest("c1", "write_file", '{"path": "a.txt", "content": "é"}')
OTHER = PermissionRequest("c2", "remove", '{"path": "b.txt"}')
COMMAND = PermissionRequest("c3", "shell", '{"command": "make all"}')
GONE = "the user did not answer the approval request"


def decide(
    screen: ScriptedScreen, request: PermissionRequest = REQUEST, describer: CallDescriber = DESCRIBER
) -> object:
    (decision,) = ask_permissions(screen, [request], describer)
    return decision


def lines(screen: ScriptedScreen) -> list[str]:
    """The lines that were left about decisions."""
    return [line for *_, line, _ in screen.of("call_decided")]


@pytest.mark.parametrize(
    ("typed", "answer", "line"),
    [
        ("y", REQUEST.allow(), "write_file  path=a.txt content=é"),
        (" YES ", REQUEST.allow(), "write_file  path=a.txt content=é"),
        (
            "a",
            REQUEST.allow_session(),
            "write_file  path=a.txt content=é (always: every call of write_file, in this session)",
        ),
        ("n", REQUEST.deny(), "write_file  path=a.txt content=é"),
        (
            "n use another name",
            REQUEST.deny("the user denied it: use another name"),
            "write_file  path=a.txt content=é: use another name",
        ),
        (None, REQUEST.deny(GONE), "write_file  path=a.txt content=é: no answer"),
    ],
)
def test_an_answer_leaves_one_line(typed: str | BaseException | None, answer: object, line: str) -> None:
    screen = ScriptedScreen(typed)
    assert decide(screen) == answer
    assert lines(screen) == [line]
    assert [each[:3] for each in screen.of("call_decided")] == [("c1", "write_file", REQUEST.arguments)]


@pytest.mark.parametrize("typed", ["", "  ", "yess", "maybe", "y please", "a b", "1", "да", "/exit", "d", "o"])
def test_anything_else_is_asked_again(typed: str) -> None:
    screen = ScriptedScreen(typed, "n")
    assert decide(screen) == REQUEST.deny()
    assert len(screen.prompts) == 2
    assert all(prompt.startswith(QUESTION) for prompt, _ in screen.prompts)


@given(st.text())
def test_only_two_words_allow_it(typed: str) -> None:
    (decision,) = ask_permissions(ScriptedScreen(typed), [REQUEST], DESCRIBER)
    assert (decision.action in ("allow", "allow_session")) == (typed.strip().lower() in ("y", "yes", "a", "always"))


def test_always_is_explained_before_it_is_chosen() -> None:
    for request, meaning in ((REQUEST, "every call of write_file"), (COMMAND, "exactly this command again")):
        screen = ScriptedScreen("n")
        decide(screen, request)
        assert f"[a]lways: {meaning}, in this session" in screen.prompts[0][0]


def test_a_reason_to_ask_is_shown_with_the_call_unless_it_is_the_usual_one() -> None:
    screen = ScriptedScreen("e", "make x", "y")
    decide(screen, replace(COMMAND, reason="the rule 'make *' does not cover 'all'"))
    assert screen.notes == "The rule 'make *' does not cover 'all'"
    screen = ScriptedScreen("n")
    decide(screen, replace(COMMAND, reason="no rule allows shell to run without an approval"))
    assert screen.notes == ""


def test_always_is_no_answer_where_its_meaning_is_unknown() -> None:
    screen = ScriptedScreen("a", "n")
    assert decide(screen, describer=CallDescriber()) == REQUEST.deny()
    assert ask_permissions(ScriptedScreen("y"), [REQUEST]) == [REQUEST.allow()]


def test_the_key_n_asks_for_a_reason() -> None:
    class Keys(ScriptedScreen):
        def choose(self, question: str, choices: Sequence[Choice]) -> Answer | None:
            return Answer("n", None)

    for typed, reason in (("too far ", "the user denied it: too far"), ("", ""), (None, "")):
        screen = Keys(typed)
        assert decide(screen) == REQUEST.deny(reason)
        assert screen.prompts == [(WHY, "")]


@pytest.mark.parametrize(
    ("typed", "left"),
    [
        ([KeyboardInterrupt()], ["write_file  path=a.txt content=é: stopped", "remove  b.txt: stopped"]),
        (
            ["o", "y", KeyboardInterrupt()],
            [
                "write_file  path=a.txt content=é",
                "write_file  path=a.txt content=é: stopped before it ran",
                "remove  b.txt: stopped",
            ],
        ),
    ],
)
def test_ctrl_c_denies_what_is_not_decided_and_stops(typed: list[str | BaseException], left: list[str]) -> None:
    screen = ScriptedScreen(*typed)
    with pytest.raises(KeyboardInterrupt):
        ask_permissions(screen, [REQUEST, OTHER], DESCRIBER)
    assert lines(screen) == left


def test_ctrl_c_instead_of_a_reason_stops() -> None:
    class Keys(ScriptedScreen):
        def choose(self, question: str, choices: Sequence[Choice]) -> Answer | None:
            return Answer("n", None)

    screen = Keys(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        decide(screen)
    assert lines(screen) == ["write_file  path=a.txt content=é: stopped"]


# What is shown.


def test_a_call_is_shown_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    screen = ScriptedScreen("y")
    decide(screen, describer=CallDescriber(ENGINE, str(tmp_path)))
    assert screen.of("preview") == [
        ("write_file a.txt +1 −1 (overwrites the file)\n  1 - old\n  1 + é\n  The file will not end in a line break.",)
    ]
    assert lines(screen) == ["write_file a.txt +1 −1"]


def test_what_cannot_be_seen_is_spelt_out() -> None:
    request = PermissionRequest("c1", "send\u200b", '{"to": "bob\u2060\U000e0041@x\u00a0"}')
    screen = ScriptedScreen("n")
    decide(screen, request)
    shown = 'send\\u200b  "bob\\u2060\\udb40\\udc41@x\\u00a0"'
    assert screen.of("preview") == [(shown,)]
    assert lines(screen) == [f"{shown}"]


def test_arguments_that_are_no_json_are_shown_as_they_are() -> None:
    screen = ScriptedScreen("n")
    decide(screen, PermissionRequest("c1", "f", "{x"))
    assert screen.of("preview") == [("f  {x",)]


def test_details_show_the_rest() -> None:
    request = PermissionRequest("c1", "send", json.dumps({"to": "bob", "text": "word " * 100}))
    screen = ScriptedScreen("d", "n")
    decide(screen, request)
    folded, whole = [text for (text,) in screen.of("preview")]
    assert "(507 characters)" in folded
    assert whole.endswith(f"\n  to: bob\n  text: {('word ' * 100).rstrip()}")
    assert "[d]etails" in screen.prompts[0][0]


# Editing.


def test_the_text_itself_is_edited_and_asked_about_again() -> None:
    screen = ScriptedScreen("e", 'a\n"b"', "y")
    assert decide(screen) == REQUEST.edit('{"path": "a.txt", "content": "a\\n\\"b\\""}')
    assert screen.prompts[1] == ("edit .txt: ", "é")
    assert len(screen.of("preview")) == 2
    assert "[a]lways" in screen.prompts[0][0] and "[a]lways" not in screen.prompts[2][0]
    assert lines(screen) == ['write_file  path=a.txt content="a\\n\\"b\\"" (edited)']


def test_an_edit_can_be_edited_again_and_denied() -> None:
    screen = ScriptedScreen("e", "one", "e", "two", "n")
    assert decide(screen) == REQUEST.deny()
    assert [text for prompt, text in screen.prompts if prompt.startswith("edit")] == ["é", "one"]


@pytest.mark.parametrize("typed", ["é", None, KeyboardInterrupt()])
def test_an_edit_without_a_change(typed: str | BaseException | None) -> None:
    screen = ScriptedScreen("e", typed, "y")
    assert decide(screen) == REQUEST.allow()
    assert screen.notes == "Nothing was changed."


def test_an_editor_that_fails() -> None:
    screen = ScriptedScreen("e", ToolcastError("the editor is gone"), "y")
    assert decide(screen) == REQUEST.allow()
    assert screen.errors == ["the editor is gone"]
    assert not screen.notes


def test_arguments_that_are_no_single_text_are_json() -> None:
    request = PermissionRequest("c1", "move", '{"to": "x", "from": "y"}')
    screen = ScriptedScreen("e", "{oops", "e", '{"to": "z"}', "y")
    assert decide(screen, request) == request.edit('{"to": "z"}')
    assert screen.prompts[1] == ("edit .json: ", '{\n  "to": "x",\n  "from": "y"\n}')
    assert screen.prompts[3] == ("edit .json: ", "{oops"), "what was typed is not lost"
    assert screen.errors[0].startswith("the arguments are no JSON: ")


# Several calls.

BOTH = [REQUEST, OTHER]


@pytest.mark.parametrize(
    ("typed", "answers"),
    [
        (["y"], [REQUEST.allow(), OTHER.allow()]),
        (["a"], [REQUEST.allow_session(), OTHER.allow_session()]),
        (["n not now"], [REQUEST.deny("the user denied it: not now"), OTHER.deny("the user denied it: not now")]),
        (["maybe", "y please", "e", "one more", "n"], [REQUEST.deny(), OTHER.deny()]),
        (["o", "y", "n"], [REQUEST.allow(), OTHER.deny()]),
        (["One", "a", "y"], [REQUEST.allow_session(), OTHER.allow()]),
        ([None], [REQUEST.deny(GONE), OTHER.deny(GONE)]),
    ],
)
def test_several_calls_are_decided_at_once(typed: list[str | BaseException | None], answers: list[object]) -> None:
    screen = ScriptedScreen(*typed)
    assert ask_permissions(screen, BOTH, DESCRIBER) == answers
    question = screen.prompts[0][0]
    assert question.startswith("Run all 2?")
    assert "[a]lways: every call of write_file; every call of remove, in this session" in question
    assert [text for (text,) in screen.of("preview")] == ["1. write_file  path=a.txt content=é", "2. remove  b.txt"]
    assert len(lines(screen)) == 2


def test_one_by_one_names_each_call() -> None:
    screen = ScriptedScreen("o", "y", "y")
    ask_permissions(screen, BOTH, DESCRIBER)
    _, first, second = [prompt for prompt, _ in screen.prompts]
    assert first.startswith("1. write_file  path=a.txt content=é: run it?")
    assert second.startswith("2. remove  b.txt: run it?")


def test_always_leaves_out_the_further_calls_of_the_tool() -> None:
    again = PermissionRequest("c9", "write_file", '{"path": "c.txt", "content": ""}')
    screen = ScriptedScreen("o", "a", "n")
    assert ask_permissions(screen, [REQUEST, again, OTHER], DESCRIBER) == [REQUEST.allow_session(), OTHER.deny()]


def test_details_of_several_calls() -> None:
    long = PermissionRequest("c1", "send", json.dumps({"to": "bob", "text": "word " * 100}))
    screen = ScriptedScreen("d", "y")
    assert ask_permissions(screen, [long, OTHER], DESCRIBER) == [long.allow(), OTHER.allow()]
    assert len(screen.of("preview")) == 4


def test_several_calls_of_unknown_tools_have_no_always() -> None:
    screen = ScriptedScreen("a", "n")
    assert ask_permissions(screen, BOTH) == [REQUEST.deny(), OTHER.deny()]


def test_a_users_tool_has_no_preview_of_the_toolbox(tmp_path: Path) -> None:
    tool = CallableTool.from_function(write_file)
    screen = ScriptedScreen("n")
    decide(screen, describer=CallDescriber(Engine(ScriptedLLM(), [tool]), str(tmp_path), frozenset()))
    assert screen.of("preview") == [("write_file  path=a.txt content=é",)]
