"""Asking a person about a call: what each answer is, and that nothing unclear is a yes."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from support.scripted_screen import ScriptedScreen
from toolcast import PermissionRequest
from toolcast.apps.repl.approval_prompt import QUESTION, QUESTION_ABOUT_ALL, ask_permission, ask_permissions

REQUEST = PermissionRequest("c1", "write_file", '{"path": "a.txt", "content": "é"}')
GONE = REQUEST.deny("the user did not answer the approval request")


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y", REQUEST.allow()),
        (" YES ", REQUEST.allow()),
        ("a", REQUEST.allow_session()),
        ("always", REQUEST.allow_session()),
        ("n", REQUEST.deny()),
        ("No", REQUEST.deny()),
        ("n use another name", REQUEST.deny("the user denied it: use another name")),
        ('e {"path": "b.txt"}', REQUEST.edit('{"path": "b.txt"}')),
        (None, GONE),
        (KeyboardInterrupt(), GONE),
    ],
)
def test_an_answer(typed: str | BaseException | None, answer: object) -> None:
    assert ask_permission(ScriptedScreen(typed), REQUEST) == answer


@pytest.mark.parametrize("typed", ["", "  ", "yess", "maybe", "y please", "a b", "1", "да", "/exit"])
def test_anything_else_is_asked_again(typed: str) -> None:
    screen = ScriptedScreen(typed, "n")
    assert ask_permission(screen, REQUEST) == REQUEST.deny()
    assert screen.prompts == [(QUESTION, ""), (QUESTION, "")]


@given(st.text())
def test_only_two_words_allow_it(typed: str) -> None:
    allowed = ask_permission(ScriptedScreen(typed), REQUEST).action in ("allow", "allow_session")
    assert allowed == (typed.strip().lower() in ("y", "yes", "a", "always"))


def test_the_arguments_are_edited() -> None:
    screen = ScriptedScreen("e", '{"path": "b.txt"}')
    assert ask_permission(screen, REQUEST) == REQUEST.edit('{"path": "b.txt"}')
    assert screen.prompts[1] == ("arguments: ", REQUEST.arguments)


@pytest.mark.parametrize("text", ["b.txt", "[1]", "{", ""])
def test_arguments_that_are_none_are_asked_again(text: str) -> None:
    screen = ScriptedScreen("e", text, "n")
    assert ask_permission(screen, REQUEST) == REQUEST.deny()
    assert screen.errors == ["expected a JSON object as arguments"]


@pytest.mark.parametrize("typed", [None, KeyboardInterrupt()])
def test_leaving_the_edit_is_a_no(typed: BaseException | None) -> None:
    assert ask_permission(ScriptedScreen("e", typed), REQUEST) == GONE


OTHER = PermissionRequest("c2", "remove", '{"path": "b.txt"}')
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
        ([None], [GONE, OTHER.deny(GONE.reason)]),
        ([KeyboardInterrupt()], [GONE, OTHER.deny(GONE.reason)]),
    ],
)
def test_several_calls_are_decided_at_once(typed: list[str | BaseException | None], answers: list[object]) -> None:
    screen = ScriptedScreen(*typed)
    assert ask_permissions(screen, BOTH) == answers
    assert screen.prompts[0] == (QUESTION_ABOUT_ALL, "")
    for request in BOTH:
        assert f"The model wants to call {request.tool}:" in screen.notes


def test_one_call_is_asked_about_by_itself() -> None:
    screen = ScriptedScreen("y")
    assert ask_permissions(screen, [OTHER]) == [OTHER.allow()]
    assert screen.prompts == [(QUESTION, "")]


def test_the_call_is_shown_whole() -> None:
    screen = ScriptedScreen("n")
    ask_permission(screen, REQUEST)
    assert screen.notes == 'The model wants to call write_file:\n{\n  "path": "a.txt",\n  "content": "é"\n}'


def test_arguments_that_are_no_json_are_shown_as_they_are() -> None:
    screen = ScriptedScreen("n")
    ask_permission(screen, PermissionRequest("c1", "f", "{x"))
    assert screen.notes.endswith("\n{x")


def test_what_cannot_be_seen_is_spelt_out() -> None:
    request = PermissionRequest("c1", "send\u200b", '{"to": "bob\u2060\U000e0041@x\u00a0"}')
    screen = ScriptedScreen("e", '{"to": "b"}')
    ask_permission(screen, request)
    shown = '{\n  "to": "bob\\u2060\\udb40\\udc41@x\\u00a0"\n}'
    assert screen.notes == f"The model wants to call send\\u200b:\n{shown}"
    assert screen.prompts[1] == ("arguments: ", '{"to": "bob\\u2060\\udb40\\udc41@x\\u00a0"}')
