"""Texts of one row about a turn and its conversation, which fit the width of the terminal by leaving parts out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

from ...terminal_text import exposed
from .activity import TurnActivity
from .screen import ConversationStatus

STOP_HINT: Final = "Ctrl-C to stop"
FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""The signs of the spinner, one after the other."""
_MARKS: Final = {"completed": "✓", "failed": "✗"}
_SEPARATOR: Final = " · "
_WIDE: Final = 60
"""Columns of a terminal that has space for the size of the context window."""
_SHORTEST: Final = 14
"""Columns to which the first part is shortened before another is left out."""


def status_text(status: ConversationStatus, columns: int) -> str:
    """Return the status of a conversation in at most `columns` columns."""
    context = tokens = cost = ""
    if status.context_percent is not None and status.context_window is not None:
        size = f" of {short_count(status.context_window)}" if columns >= _WIDE else ""
        context = f"{status.context_percent:.0f} %{size} context"
    if status.tokens:
        tokens = f"{short_count(status.tokens)} tokens"
    if status.cost:
        cost = f"{'≥ ' if status.is_least_cost else ''}${status.cost:.{2 if status.cost >= 1 else 4}f}"
    return fit_parts([exposed(status.model), f"mode {status.mode}", context, cost, tokens], columns)


def short_count(count: int) -> str:
    """Return a number with at most four digits and its unit: 950, 12.3k, 200k, 1M."""
    for factor, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= factor:
            scaled = f"{count / factor:.{1 if count < 100 * factor else 0}f}"
            return f"{scaled.removesuffix('.0')}{unit}"
    return str(count)


def duration(seconds: int) -> str:
    """Return a number of seconds as a text: 5 s, 2 min 05 s, 1 h 02 min."""
    minutes, seconds = divmod(seconds, 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"


def fit_parts(parts: Sequence[str], columns: int) -> str:
    """Return the parts that are not empty, in at most `columns` columns.

    The first part is shortened down to 14 columns; then the last parts are left out, one by one.
    """
    first, *others = filter(None, parts)
    least = min(cell_len(first), _SHORTEST)
    while others and least + sum(len(_SEPARATOR) + cell_len(part) for part in others) > columns:
        others.pop()
    rest = "".join(f"{_SEPARATOR}{part}" for part in others)
    return f"{shorten_cells(first, max(columns - cell_len(rest), 1))}{rest}"


def shorten_cells(text: str, columns: int) -> str:
    """Return the text, or its beginning and an ellipsis, in at most `columns` columns."""
    return text if cell_len(text) <= columns else f"{set_cell_size(text, columns - 1).rstrip()}…"


def activity_text(activity: TurnActivity, columns: int) -> str:
    """Return the label of an activity, its duration, its tokens and the hint in at most `columns` columns."""
    tokens = f"{short_count(activity.tokens)} tokens" if activity.tokens else ""
    parts = [_one_line(activity.label), duration(activity.seconds), tokens, STOP_HINT]
    fitting = fit_parts(parts, columns)
    return fitting if fitting.endswith(STOP_HINT) else fit_parts([*parts[:2], STOP_HINT], columns)


def agent_text(id: str, agent: TurnActivity, frame: str, columns: int) -> str:
    """Return the sign, id and task of a sub-agent, its label, duration and tokens in at most `columns` columns."""
    indent = "  " * (agent.depth + 1)
    name = _one_line(f"{id} {agent.task}")
    head = f"{indent}{_MARKS.get(agent.outcome, frame)} {shorten_cells(name, max(columns * 2 // 5, 8))}"
    tokens = f"{short_count(agent.tokens)} tokens" if agent.tokens else ""
    label = agent.outcome or shorten_cells(_one_line(agent.label), max(columns // 3, 8))
    return fit_parts([head, label, duration(agent.seconds), tokens], columns)


def _one_line(text: str) -> str:
    return exposed(" ".join(text.split()))
