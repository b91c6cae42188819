"""The branches of a chat: the messages that an edited message or another answer has replaced.

A `BranchPoint` is at the index of the first message that differs. Indexes count from the beginning of the chat also
within a branch: all branches of a point have the same messages before it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from .chat_context import Branch, BranchPoint, ChatContext

_NO_MESSAGES: Final = Branch()


def begin_branch(context: ChatContext, index: int) -> ChatContext:
    """Return the context without the messages from `index` on, which are kept as a branch if there are any."""
    point = _point(context, index)
    if index < len(context.messages):
        branches = (*_with(point.branches, point.current, _tail(context, index)), _NO_MESSAGES)
        point = BranchPoint(index, len(branches) - 1, branches)
    return _put(context, point, _NO_MESSAGES)


def switch_branch(context: ChatContext, index: int, branch: int) -> ChatContext:
    """Return the context with another branch of the point at `index`; the current one is kept."""
    point = _point(context, index)
    chosen = point.branches[branch]
    branches = _with(_with(point.branches, point.current, _tail(context, index)), branch, _NO_MESSAGES)
    return _put(context, BranchPoint(index, branch, branches), chosen)


def branch_count(context: ChatContext, index: int) -> int:
    """Return the number of branches at `index`: 1 where there is no branch point."""
    return len(_point(context, index).branches)


def _point(context: ChatContext, index: int) -> BranchPoint:
    new = BranchPoint(index, 0, (_NO_MESSAGES,))
    return next((point for point in context.branches if point.index == index), new)


def _with(branches: tuple[Branch, ...], place: int, branch: Branch) -> tuple[Branch, ...]:
    return (*branches[:place], branch, *branches[place + 1 :])


def _tail(context: ChatContext, index: int) -> Branch:
    """Return the messages from `index` on as a branch. A mark before them is theirs only if there are none."""
    messages = context.messages[index:]
    first = index + 1 if messages else index
    return Branch(
        messages,
        tuple([at for at in context.interrupted if at >= index]),
        tuple([mark for mark in context.marks if mark.at >= first]),
        tuple([point for point in context.branches if point.index > index]),
    )


def _put(context: ChatContext, point: BranchPoint, branch: Branch) -> ChatContext:
    """Return the context with `branch` from the point on."""
    index, gone = point.index, _tail(context, point.index)
    taken = {mark.at for mark in branch.marks}
    before = [each for each in context.branches if each.index < index]
    here = [point] if len(point.branches) > 1 else []
    return replace(
        context,
        messages=(*context.messages[:index], *branch.messages),
        interrupted=(*[at for at in context.interrupted if at < index], *branch.interrupted),
        marks=(*[mark for mark in context.marks if mark not in gone.marks and mark.at not in taken], *branch.marks),
        branches=(*before, *here, *branch.branches),
        last_error=None,
        retry=None,
    )
