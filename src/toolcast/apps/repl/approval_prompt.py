"""Questions to the user: the approval of tool calls, and questions of the model.

Each call is shown once: what it would do (approval_preview.py), and then the question about it. Several calls are one
numbered list with one question, and are decided together or one by one. The end of input denies a call. Esc and Ctrl-C
deny all that are not decided yet, and end the turn.

An edit opens the text itself, and the question is asked again about the edited call. What is approved is exactly what
was shown: a decision has the fingerprint of the model's call, and the arguments as they were edited.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from ...agents.engine.engine import Engine
from ...errors import ToolcastError
from ...lazy.lazy_dataclasses import dataclass
from ...toolbox.questions import Question
from ...values.approvals import ApprovalDecision, PermissionRequest
from ..approval_preview import BUILT_IN, IN_SESSION, CallSketch, describe_always, preview_call, why_asked
from ..argument_text import EditableText, editable_text, edited_arguments
from .choices import Answer, Choice
from .preview_text import call_label, is_foldable
from .screen import Screen

QUESTION: Final = "Run it?"
WHY: Final = "why not? (Enter: no reason) "
_GONE: Final = "the user did not answer the approval request"
_NO: Final = Choice("n", "no (and tell the model why)", takes_text=True)
_DETAILS: Final = Choice("d", "details: show all of it")


@dataclass(frozen=True, slots=True)
class CallDescriber:
    """The description of calls for a person: by the tools and permissions of `engine`, and the files below `root`.

    `built_in` are the names of the tools that are those of the toolbox.
    """

    engine: Engine | None = None
    root: str | None = None
    built_in: Collection[str] = BUILT_IN

    def preview(self, request: PermissionRequest) -> CallSketch:
        """Return what the call would do."""
        return preview_call(request, self.root, built_in=self.built_in)

    def always(self, request: PermissionRequest) -> str:
        """Return what approving the call for the session will allow; empty if that is unknown."""
        engine = self.engine
        tool = engine and next((tool for tool in engine.tools if tool.name == request.tool), None)
        return describe_always(engine.permissions, tool, request) if engine and tool else ""


class _WaitingCall:
    """A call that waits for approval, perhaps with edited arguments."""

    def __init__(self, request: PermissionRequest, describer: CallDescriber, number: int | None) -> None:
        self.request = request
        self.number = number
        self.always: str = describer.always(request)
        self.preview: CallSketch = describer.preview(request)
        self.is_edited = False
        self.is_decided = False
        self.is_allowed = False
        self._describer = describer
        self._arguments = request.arguments
        self._draft: EditableText | None = None  # edited arguments that are not valid

    @property
    def label(self) -> str:
        return call_label(self.request.tool, self.preview)

    def show(self, screen: Screen, *, whole: bool = False) -> None:
        screen.preview(self.request.tool, self.preview, number=self.number, whole=whole)
        if not self.is_edited and (why := why_asked(self.request)):
            screen.note(why)

    def choices(self) -> list[Choice]:
        """Return the answers to the question about this call."""
        always = [Choice("a", f"always: {self.always}")] if self.always and not self.is_edited else []
        details = [_DETAILS] if is_foldable(self.preview) else []
        return [Choice("y", "yes"), _NO, *always, Choice("e", "edit it first"), *details]

    def allow(self) -> ApprovalDecision:
        return self.request.edit(self._arguments) if self.is_edited else self.request.allow()

    def edit(self, screen: Screen) -> None:
        """Let the user edit the call's text, and show the edited call."""
        before = self._draft or editable_text(self._arguments)
        self._draft = None
        text = _edit_text(screen, before)
        if text is None:
            return
        try:
            arguments = edited_arguments(self._arguments, before.argument, text)
        except ToolcastError as error:
            self._draft = before._replace(text=text)
            screen.error(str(error), "e opens the text again")
            return
        self._arguments, self.is_edited = arguments, True
        self.preview = self._describer.preview(replace(self.request, arguments=arguments))
        self.show(screen)


def ask_permissions(
    screen: Screen, requests: Sequence[PermissionRequest], describer: CallDescriber | None = None
) -> list[ApprovalDecision]:
    """Ask the user about `requests`, at once if there are several, and return the decisions.

    Where the user decides one by one, the further calls of a tool that was allowed for the session are left out: most
    of them need no approval now.

    Raises:
        KeyboardInterrupt: Esc or Ctrl-C was pressed, after which the model is to do nothing more.
    """
    describer = describer or CallDescriber()
    several = len(requests) > 1
    calls = [
        _WaitingCall(request, describer, number if several else None) for number, request in enumerate(requests, 1)
    ]
    for call in calls:
        call.show(screen)
    try:
        decisions = _decide_all(screen, calls) if several else None
        return _decide_each(screen, calls) if decisions is None else decisions
    except KeyboardInterrupt:
        for call in calls:
            if not call.is_decided or call.is_allowed:
                outcome = ": stopped before it ran" if call.is_allowed else ": stopped"
                _show_decision(screen, call, call.request.deny(), outcome)
        raise


def _decide_each(screen: Screen, calls: Sequence[_WaitingCall]) -> list[ApprovalDecision]:
    decisions, always = list[ApprovalDecision](), set[str]()
    for call in calls:
        if call.request.tool in always:
            call.is_decided = call.is_allowed = True
            continue
        decision = _decide(screen, call)
        decisions.append(decision)
        if decision.action == "allow_session":
            always.add(call.request.tool)
    return decisions


def _decide_all(screen: Screen, calls: Sequence[_WaitingCall]) -> list[ApprovalDecision] | None:
    """Return one decision for each call; None if the user decides one by one."""
    parts = dict.fromkeys([call.always.removesuffix(IN_SESSION) for call in calls if call.always])
    always = f"{'; '.join(parts)}{IN_SESSION}" if parts else ""
    choices = [
        Choice("y", "yes, all of them"),
        _NO._replace(label="no, none (and tell the model why)"),
        *([Choice("a", f"always: {always}")] if always else []),
        Choice("o", "one by one"),
        *([_DETAILS] if any(is_foldable(call.preview) for call in calls) else []),
    ]
    while True:
        answer = screen.choose(f"Run all {len(calls)}?", choices)
        if answer is not None and answer.key == "o":
            return None
        if answer is not None and answer.key == "d":
            for call in calls:
                call.show(screen, whole=True)
            continue
        reason = _reason(screen, answer)
        return [_finish(screen, call, answer, reason) for call in calls]


def _decide(screen: Screen, call: _WaitingCall) -> ApprovalDecision:
    """Ask about one call until the answer is a decision."""
    while True:
        question = QUESTION if call.number is None else f"{call.number}. {call.label}: run it?"
        answer = screen.choose(question, call.choices())
        if answer is not None and answer.key == "d":
            call.show(screen, whole=True)
        elif answer is not None and answer.key == "e":
            call.edit(screen)
        else:
            return _finish(screen, call, answer, _reason(screen, answer))


def _reason(screen: Screen, answer: Answer | None) -> str:
    """Return the reason of a no, which is typed behind it or at a prompt of its own."""
    if answer is None or answer.text is not None:
        return answer.text or "" if answer else ""
    return (screen.read(WHY) or "").strip()


def _finish(screen: Screen, call: _WaitingCall, answer: Answer | None, reason: str) -> ApprovalDecision:
    """Return the decision that an answer is, and show it."""
    key = "" if answer is None else answer.key
    decision = call.request.deny(_GONE if answer is None else f"the user denied it: {reason}" if reason else "")
    outcome = f": {reason}" if reason else ": no answer" if answer is None else ""
    if key == "y":
        decision, outcome = call.allow(), " (edited)" if call.is_edited else ""
    elif key == "a":
        decision, outcome = call.request.allow_session(), f" (always: {call.always})"
    _show_decision(screen, call, decision, outcome)
    return decision


def _show_decision(screen: Screen, call: _WaitingCall, decision: ApprovalDecision, outcome: str) -> None:
    call.is_decided = True
    call.is_allowed = is_allowed = decision.action != "deny"
    arguments = decision.arguments or call.request.arguments
    screen.call_decided(call.request.call_id, call.request.tool, arguments, f"{call.label}{outcome}", is_allowed)


def _edit_text(screen: Screen, before: EditableText) -> str | None:
    """Return the edited text; None if it was not changed."""
    try:
        text = screen.edit(before.text, before.suffix)
    except KeyboardInterrupt:
        text = None
    except ToolcastError as error:
        screen.error(str(error))
        return None
    if text is None or text == before.text:
        screen.note("Nothing was changed.")
        return None
    return text


def ask_question(screen: Screen, question: Question) -> None:
    """Ask the user the model's question and pass on the answer, or None if no person is there."""
    choices = [f"  {number}  {choice}" for number, choice in enumerate(question.choices, 1)]
    screen.note("\n".join([f"The model asks: {question.text}", *choices]))
    question.answer(screen.read("answer: ") if screen.is_interactive else None)
