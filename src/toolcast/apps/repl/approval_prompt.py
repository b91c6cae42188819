"""Questions to the user: the approval of a tool call, and questions of the model.

An approval has a fixed set of answers; any other text repeats the question. End of input and Ctrl-C deny the call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ...approvals import ApprovalDecision, PermissionRequest
from ...terminal_text import exposed
from ...toolbox.questions import Question
from .screen import Screen

QUESTION: Final = "run it? [y]es, [n]o (and why), [a]lways in this session, [e]dit: "
_GONE: Final = "the user did not answer the approval request"

_AnswerHandler: TypeAlias = Callable[[Screen, PermissionRequest, str], ApprovalDecision | None]


def ask_permission(screen: Screen, request: PermissionRequest) -> ApprovalDecision:
    """Ask the user about `request` until the answer is a decision, and return that."""
    screen.note(exposed(f"The model wants to call {request.tool}:\n{_indented(request.arguments)}"))
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


_ANSWERS: Final[Mapping[str, _AnswerHandler]] = {
    "y": _yes,
    "yes": _yes,
    "n": _no,
    "no": _no,
    "a": _always,
    "always": _always,
    "e": _edit,
    "edit": _edit,
}


def _indented(arguments: str) -> str:
    """Return the arguments as indented JSON; text that is no JSON is returned unchanged."""
    try:
        return json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
    except ValueError:
        return arguments
