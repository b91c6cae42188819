"""Asking a person: whether a tool call may run, and what the model wants to know.

Whether a call may run is one question, with answers that cannot be misread: whatever is not clearly one of them is
asked for again. Nobody there any more, or Ctrl-C, is a no.
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
_GONE: Final = "the user was asked and did not answer"

_Answering: TypeAlias = Callable[[Screen, PermissionRequest, str], ApprovalDecision | None]


def asked(screen: Screen, request: PermissionRequest) -> ApprovalDecision:
    """What the person says to `request`."""
    screen.note(exposed(f"The model wants to call {request.tool}:\n{_laid_out(request.arguments)}"))
    try:
        while True:
            said = screen.read(QUESTION)
            if said is None:
                return request.deny(_GONE)
            word, _, rest = said.strip().partition(" ")
            answering = _ANSWERS.get(word.lower())
            answer = None if answering is None else answering(screen, request, rest.strip())
            if answer is not None:
                return answer
    except KeyboardInterrupt:
        return request.deny(_GONE)


def answered(screen: Screen, question: Question) -> None:
    """Have the person answer what the model asks. With nobody there, it hears that."""
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
    """The answer with the arguments that the person makes of the model's; None where they are no arguments."""
    text = rest or screen.read("arguments: ", exposed(request.arguments))
    if text is None:
        return request.deny(_GONE)
    try:
        fits = isinstance(json.loads(text), dict)
    except ValueError:
        fits = False
    if not fits:
        screen.error("arguments are a JSON object", 'for example {"path": "notes.txt"}')
    return request.edit(text) if fits else None


_ANSWERS: Final[Mapping[str, _Answering]] = {
    "y": _yes,
    "yes": _yes,
    "n": _no,
    "no": _no,
    "a": _always,
    "always": _always,
    "e": _edit,
    "edit": _edit,
}


def _laid_out(arguments: str) -> str:
    """The arguments as a person reads them best: one a line. What is no JSON stays as it is."""
    try:
        return json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
    except ValueError:
        return arguments
