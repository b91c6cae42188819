"""`question_tool`: the model asks the person, and reads the answer.

Either a function answers, or the question travels to whoever follows the turn: as the `data` of a `ToolProgress`
event, a `Question`, which the thread that draws the user interface answers with `question.answer(...)` while the tool
waits, no longer than the turn goes on. So who offers the tool without a function must look at the events.
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
from ..tools.context import ToolContext

_NOBODY: Final = "nobody is there to answer: go on without an answer, and say what you have assumed"

Answered: TypeAlias = str | None
Asking: TypeAlias = Callable[["Question"], Answered] | Callable[["Question"], Awaitable[Answered]]
"""Gives the answer of the person. Nobody is there where it gives None, or raises `EOFError`."""


def question_tool(ask: Asking | None = None) -> CallableTool:
    """The tool `ask_user{question, choices}`: `ask`, sync or async, answers, or else whoever follows the turn."""
    # Two questions at once would be one too many for a person.
    tool = CallableTool.from_function(_ask_user, "ask_user").with_(read_only=True, parallel=False)
    if ask is None:
        return replace(tool, async_function=_aask_user)
    if is_async(ask):
        return replace(tool, function=None, async_function=_awaiting(cast("Callable[..., Awaitable[Answered]]", ask)))
    return replace(tool, function=_calling(cast("Callable[..., Answered]", ask)))


class Question:
    """What the model asks: its `text`, and the `choices` it offers, if any. Any thread may `answer` it."""

    __slots__ = ("_given", "choices", "text", "waiters")

    def __init__(self, text: str, choices: Sequence[str] = ()) -> None:
        self.text: str = text
        self.choices: tuple[str, ...] = tuple(choices)
        self.waiters: Waiters = Waiters()
        self._given: list[Answered] = []  # the first counts: to append is one atomic step

    @property
    def answered(self) -> bool:
        """Whether there is an answer, or will never be one."""
        return bool(self._given)

    def answer(self, text: Answered) -> None:
        """Give the answer; None where nobody is there to give one. Only the first counts.

        A choice may be named by its number, from 1, and in small letters. Any other answer is as good.
        """
        self._given.append(None if text is None else self._meant(text))
        self.waiters.wake()

    def read(self) -> str:
        """The answer. Raises `TryAgain`, words for the model, where nobody is there to give one."""
        if not self._given or (first := self._given[0]) is None:
            raise TryAgain(_NOBODY)
        return first

    def _meant(self, text: str) -> str:
        said = text.strip().casefold()
        numbered = {str(number): choice for number, choice in enumerate(self.choices, 1)}
        named = {choice.strip().casefold(): choice for choice in self.choices}
        return (numbered | named).get(said, text)

    def __repr__(self) -> str:
        return f"Question({self.text!r}, {self.choices!r})"


def _ask_user(question: str, choices: Sequence[str] = (), *, context: ToolContext) -> str:
    """Ask the person you work for, and wait for the answer: for what only they can know or decide.

    Args:
        question: The question, in full.
        choices: Answers to choose from, if there are only a few.
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
    """`question`, which those who follow the turn have now. Outside of a turn there is nobody."""
    if context.tell is None:
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
