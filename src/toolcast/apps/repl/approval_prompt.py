"""Questions to the user: the approval of tool calls, and questions of the model.

Where several calls wait, all of them are shown before a question about all of them. An approval has a fixed set of
answers; any other text repeats the question. End of input and Ctrl-C deny the calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from ...approvals import ApprovalDecision, PermissionRequest
from ...terminal_text import exposed
from ...toolbox.questions import Question
from .screen import Screen

QUESTION: Final = "run it? [y]es, [n]o (and why), [a]lways in this session, [e]dit: "
QUESTION_ABOUT_ALL: Final = "run all? [y]es, [n]o (and why), [a]lways, [o]ne by one: "
_GONE: Final = "the user did not answer the approval request"

_AnswerHandler: TypeAlias = Callable[[Screen, PermissionRequest, str], ApprovalDecision | None]


def ask_permissions(screen: Screen, requests: Sequence[PermissionRequest]) -> list[ApprovalDecision]:
    """Ask the user about `requests`, at once if there are several, and return the decisions.

    Where the user decides one by one, the further calls of a tool that was allowed for the session are left out: most
    of them need no approval now.
    """
    if len(requests) > 1:
        answers = _ask_about_all(screen, requests)
        if answers is not None:
            return answers
    decisions: list[ApprovalDecision] = []
    always: set[str] = set()
    for request in requests:
        if request.tool not in always:
            decisions.append(ask_permission(screen, request))
        if decisions[-1].action == "allow_session":
            always.add(request.tool)
    return decisions


def _ask_about_all(screen: Screen, requests: Sequence[PermissionRequest]) -> list[ApprovalDecision] | None:
    """Show all requests and return one decision for each; None if the user decides one by one."""
    for request in requests:
        _show(screen, request)
    try:
        while True:
            text = screen.read(QUESTION_ABOUT_ALL)
            if text is None:
                return [request.deny(_GONE) for request in requests]
            word, _, rest = text.strip().partition(" ")
            if word.lower() in ("o", "one") and not rest.strip():
                return None
            handler = _ANSWERS_ABOUT_ALL.get(word.lower())
            answers = [] if handler is None else [handler(screen, request, rest.strip()) for request in requests]
            if found := [answer for answer in answers if answer is not None]:
                return found
    except KeyboardInterrupt:
        return [request.deny(_GONE) for request in requests]


def _show(screen: Screen, request: PermissionRequest) -> None:
    screen.note(exposed(f"The model wants to call {request.tool}:\n{_indented(request.arguments)}"))


def ask_permission(screen: Screen, request: PermissionRequest) -> ApprovalDecision:
    """Ask the user about `request` until the answer is a decision, and return that."""
    _show(screen, request)
    try:
        while True:
            text = screen.read(QUESTION)
            if text is None:
                return request.deny(_GONE)
            word, _, rest = text.strip().partition(" ")
            handler = _ANSWERS.get(word.lower())
            answer = None if handler is None else handler(screen, request, rest.strip())
            if answer is not None:
                return answer
    except KeyboardInterrupt:
        return request.deny(_GONE)


def ask_question(screen: Screen, question: Question) -> None:
    """Ask the user the model's question and pass on the answer, or None if no person is there."""
    choices = [f"  {number}  {choice}" for number, choice in enumerate(question.choices, 1)]
    screen.note("\n".join([f"The model asks: {question.text}", *choices]))
    question.answer(screen.read("answer: ") if screen.is_interactive else None)


def _yes(screen: Screen, request: PermissionRequest, rest: str) -> ApprovalDecision | None:
    return None if rest else request.allow()


def _no(screen: Screen, request: PermissionRequest, rest: str) -> ApprovalDecision | None:
    return request.deny(f"the user denied it: {rest}" if rest else "")


def _always(screen: Screen, request: PermissionRequest, rest: str) -> ApprovalDecision | None:
    return None if rest else request.allow_session()


def _edit(screen: Screen, request: PermissionRequest, rest: str) -> ApprovalDecision | None:
    """Return the decision with edited arguments, or None if they are not a JSON object."""
    text = rest or screen.read("arguments: ", exposed(request.arguments))
    if text is None:
        return request.deny(_GONE)
    try:
        fits = isinstance(json.loads(text), dict)
    except ValueError:
        fits = False
    if not fits:
        screen.error("expected a JSON object as arguments", 'for example {"path": "notes.txt"}')
    return request.edit(text) if fits else None


_ANSWERS_ABOUT_ALL: Final[Mapping[str, _AnswerHandler]] = {
    "y": _yes,
    "yes": _yes,
    "n": _no,
    "no": _no,
    "a": _always,
    "always": _always,
}
_ANSWERS: Final[Mapping[str, _AnswerHandler]] = {**_ANSWERS_ABOUT_ALL, "e": _edit, "edit": _edit}


def _indented(arguments: str) -> str:
    """Return the arguments as indented JSON; text that is no JSON is returned unchanged."""
    try:
        return json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
    except ValueError:
        return arguments
