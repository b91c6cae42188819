"""The tool `ask_user`: the model asks the user a question, and reads the answer.

Either a function answers, or the question is emitted to the consumers of the turn: as the `data` of a `ToolProgress`
event, a `Question`, which the user interface answers with `question.answer(...)` from any thread, while the tool waits
at most until the turn ends. An application that offers the tool without a function must handle these events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias, cast

from ..async_support.callbacks import is_async
from ..async_support.waiters import Waiters
from ..errors import TryAgain
from ..tools.callable_tool import CallableTool
from ..tools.tool_context import ToolContext

_NO_USER: Final = "no user is available to answer: go on without an answer, and state your assumptions"

Answered: TypeAlias = str | None
Asking: TypeAlias = Callable[["Question"], Answered] | Callable[["Question"], Awaitable[Answered]]
"""A function that returns the answer of the user. None or an `EOFError` means that no user is available."""


def question_tool(ask: Asking | None = None) -> CallableTool:
    """Return the tool `ask_user`. Questions are answered by `ask`, sync or async, or by a consumer of the turn."""
    # A user can answer only one question at a time.
    tool = CallableTool.from_function(_ask_user, "ask_user").with_(read_only=True, parallel=False)
    if ask is None:
        return replace(tool, async_function=_aask_user)
    if is_async(ask):
        return replace(tool, function=None, async_function=_awaiting(cast("Callable[..., Awaitable[Answered]]", ask)))
    return replace(tool, function=_calling(cast("Callable[..., Answered]", ask)))


class Question:
    """A question of the model: its `text`, and its `choices`, if any. Any thread may `answer` it."""

    __slots__ = ("_given", "choices", "text", "waiters")

    def __init__(self, text: str, choices: Sequence[str] = ()) -> None:
        self.text: str = text
        self.choices: tuple[str, ...] = tuple(choices)
        self.waiters: Waiters = Waiters()
        self._given: list[Answered] = []  # the first counts: to append is one atomic step

    @property
    def answered(self) -> bool:
        """True if there is an answer, or will never be one."""
        return bool(self._given)

    def answer(self, text: Answered) -> None:
        """Set the answer; None if no user is available. Only the first call has an effect.

        A choice may be given by its number, from 1, or in another case. Any other text is an answer as well.
        """
        self._given.append(None if text is None else self._choice(text))
        self.waiters.wake()

    def read(self) -> str:
        """Return the answer. Raises `TryAgain`, a message to the model, if no user is available."""
        if not self._given or (first := self._given[0]) is None:
            raise TryAgain(_NO_USER)
        return first

    def _choice(self, text: str) -> str:
        given = text.strip().casefold()
        numbered = {str(number): choice for number, choice in enumerate(self.choices, 1)}
        named = {choice.strip().casefold(): choice for choice in self.choices}
        return (numbered | named).get(given, text)

    def __repr__(self) -> str:
        return f"Question({self.text!r}, {self.choices!r})"


def _ask_user(question: str, choices: Sequence[str] = (), *, context: ToolContext) -> str:
    """Ask the user a question, and wait for the answer: for what only they can know or decide.

    Args:
        question: The question, in full.
        choices: Answers to choose from, if there are only a few.
        context: The context of the call.
    """
    asked = _emitted(Question(question, choices), context)
    forget = context.cancellation.then(asked.waiters.wake)
    asked.waiters.block(lambda: asked.answered or context.cancelled)
    forget()
    context.check()
    return asked.read()


async def _aask_user(question: str, choices: Sequence[str] = (), *, context: ToolContext) -> str:
    asked = _emitted(Question(question, choices), context)
    await asked.waiters.suspend(lambda: asked.answered)
    return asked.read()


def _emitted(question: Question, context: ToolContext) -> Question:
    """Emit the question to the consumers of the turn, and return it. Outside of a turn it has no answer."""
    if context.on_progress is None:
        question.answer(None)
    context.emit(question)
    return question


def _calling(ask: Callable[[Question], Answered]) -> Callable[..., str]:
    def ask_user(question: str, choices: Sequence[str] = (), *, context: ToolContext) -> str:
        asked = Question(question, choices)
        with suppress(EOFError):
            asked.answer(ask(asked))
        return asked.read()

    return ask_user


def _awaiting(ask: Callable[[Question], Awaitable[Answered]]) -> Callable[..., Awaitable[str]]:
    async def ask_user(question: str, choices: Sequence[str] = (), *, context: ToolContext) -> str:
        asked = Question(question, choices)
        with suppress(EOFError):
            asked.answer(await ask(asked))
        return asked.read()

    return ask_user
