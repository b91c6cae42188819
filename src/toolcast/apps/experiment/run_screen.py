"""Lines of a screen that show runs: one in detail, several as a table, and the few lines below a run's output.

Each fits its width, whatever that is: what matters least is left out, or cut off with an ellipsis. A line is a sequence
of parts with their styles, as rich names them, so that the same lines are drawn on a terminal and written to a file.
Text of a model is escaped.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final, TypeAlias

from ...experiments.run_progress import RunProgress, seconds_elapsed_of, seconds_left_of
from ...text.live_display import can_encode
from ...text.terminal_text import visible
from ..output import display_width, fit, fitted_table, pluralize

Line: TypeAlias = Sequence[tuple[str, str]]
"""The parts of a line, each with its style; an empty style is that of plain text."""

NARROW: Final = 60
"""Columns below which times and rates get a line of their own."""

_LABEL: Final = 12
_REFLECTION_LINES: Final = 3
_LEAST: Final = 12
"""The least columns for the reflections of a table."""

_BAR: Final = 40
_LONG_SILENCE: Final = 60.0
_ASCII: Final = str.maketrans("━╌·…", "#-|~")
_STYLES: Final = {"completed": "green", "failed": "red", "interrupted": "yellow", "stopped": "yellow"}
_STATES: Final = {"terminate_or_continue": "between cycles", "load_state": "starting"}
_DROPPED: Final = ("tools", "keys", "similar", "tokens/s", "left", "state")
"""The columns of the table that are left out, in this order, where they do not fit."""


def plain(lines: Sequence[Line]) -> str:
    """Return the lines as text."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def encodable(lines: Sequence[Line], encoding: str | None) -> Sequence[Line]:
    """Return the lines with ASCII in place of the signs that `encoding` lacks, for a terminal that is not UTF-8."""
    if can_encode(encoding, "".join(map(chr, _ASCII))):
        return lines
    return [[(text.translate(_ASCII), style) for text, style in line] for line in lines]


def clock(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds: `0:03:12`."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def rate(per_second: float | None) -> str:
    """Return tokens per second as text; empty if they were not measured."""
    return "" if per_second is None else f"{per_second:,.0f}" if per_second >= 9.95 else f"{per_second:.1f}"


def state_text(run: RunProgress) -> str:
    """Return the state of a run, with the tool that it calls."""
    if run.status is not None:
        return one_line(run.status)
    if not run.has_begun:
        return "waiting"
    return f"{run.state}: {one_line(run.tool)}" if run.tool else _STATES.get(run.state, run.state)


def one_line(text: str) -> str:
    """Return a text of a model on one line, escaped."""
    return visible(" ".join(text.split()))


# Below the output of `toolcast experiment run`.


def run_lines(run: RunProgress, width: int, now: float) -> list[Line]:
    """Return the lines of the progress of one run: the cycles as a bar, times and rate, the state."""
    label = f"Cycle {_count(run)} "
    details = [state_text(run), pluralize(run.tool_calls, "tool call"), f"{run.total_tokens:,} tokens"]
    state = [(_joined(details, width), "dim")]
    if width < NARROW:
        bar = _bar(_part(run), min(_BAR, width - len(label)))
        return [[(label, ""), *bar], [(_joined(_pace([run], now, short=True), width), "")], state]
    text = "  ".join(_pace([run], now))
    bar = _bar(_part(run), min(_BAR, width - len(label) - len(text) - 2))
    return [[(label, ""), *bar, (f"  {text}", "")], state]


def grid_lines(runs: Sequence[RunProgress], width: int, height: int, now: float) -> list[Line]:
    """Return the lines of the progress of a grid: all its cycles as a bar, and a row for each run that goes on."""
    live = [run for run in runs if run.has_begun and run.status is None]
    heading = [*_heading(runs, width, now)]
    return [*heading, *_table(live, width, height - len(heading) - 2, now, _common(runs))]


def cycle_text(run: RunProgress, now: float) -> str:
    """Return the figures of a run after a cycle as one line of text."""
    tokens = f"{run.total_tokens:,} tokens"
    return ", ".join([pluralize(run.tool_calls, "tool call"), tokens, *_pace([run], now)])


# `toolcast experiment watch`.


def run_view(run: RunProgress, width: int, now: float) -> list[Line]:
    """Return the lines that show one run in detail."""
    name, model = one_line(run.run_id), one_line(run.model_name)
    status = run.status or ("running" if run.has_begun else "waiting")
    space = max(width - len(status) - 2, 1)
    title = fit(f"{name} · {model}" if model else name, space)
    gap = " " * max(width - display_width(title) - len(status), 2)
    return [
        [(title, "bold"), (gap, ""), (status, f"bold {_STYLES.get(status, 'cyan')}")],
        *(_field(label, text, width, style) for label, text, style in _fields(run, width, now)),
        *_reflection(run, width),
    ]


def grid_view(runs: Sequence[RunProgress], width: int, height: int, now: float) -> list[Line]:
    """Return the lines that show several runs: a summary, and a row for each; those that go on come first."""
    order = sorted(runs, key=lambda run: (run.status is not None, not run.has_begun))
    heading = [*_heading(runs, width, now), [("", "")]]
    return [*heading, *_table(order, width, height - len(heading) - 1, now, _common(runs))]


def _heading(runs: Sequence[RunProgress], width: int, now: float) -> Iterator[Line]:
    counts = [
        f"{number} {kind}"
        for kind in ("running", "completed", "failed", "interrupted", "stopped", "waiting")
        if (number := sum(_kind(run) == kind for run in runs))
    ]
    done, total = sum(run.completed for run in runs), _total(runs)
    yield [(_joined([pluralize(len(runs), "run"), *counts], width), "bold")]
    label, text = f"Cycles {done}/{total or '?'} ", "  ".join(_pace(runs, now))
    part = None if total is None else done / total
    if width < NARROW:
        yield [(label, ""), *_bar(part, min(_BAR, width - len(label)))]
        yield [(_joined(_pace(runs, now, short=True), width), "")]
        return
    yield [(label, ""), *_bar(part, min(_BAR, width - len(label) - len(text) - 2)), (f"  {text}", "")]


def _fields(run: RunProgress, width: int, now: float) -> Iterator[tuple[str, str, str]]:
    """Yield label, text and style of the figures of a run that are known."""
    space = width - _LABEL
    yield "Cycle", f"{_count(run)}  {plain([_bar(_part(run), min(_BAR, space - len(_count(run)) - 2))])}", "cyan"
    silence = 0.0 if run.state_since is None else max(now - run.state_since, 0.0)
    since = [clock(silence)] if run.status is None and run.has_begun else []
    yield "State", _joined([state_text(run), *since], space), "yellow" if since and silence > _LONG_SILENCE else ""
    yield "Time", _joined(_times([run], now, short=width < NARROW), space), ""
    speed = [f"{found} tokens/s"] if (found := rate(run.tokens_per_second)) else []
    yield "Tokens", _joined([*speed, f"{run.input_tokens:,} in", f"{run.output_tokens:,} out"], space), ""
    tools = [f"{name} {count}" for name, count in run.tools.most_common()]
    yield "Tool calls", _joined([str(run.tool_calls), *map(one_line, tools)], space), ""
    keys = [one_line(key) for key in sorted(run.memory_keys)]
    yield "Memory", fit(pluralize(len(keys), "key") + (f": {', '.join(keys)}" if keys else ""), space), ""
    if run.similarity is not None:
        text = f"{run.similarity:.2f} to cycle {run.similar_to}" if run.similar_to else f"{run.similarity:.2f}"
        advised = [f"advisory: {one_line(run.advisory)}"] if run.advisory else []
        yield "Similarity", _joined([text, *advised], space), "yellow" if advised else ""
    if run.errors:
        yield "Errors", fit(f"{run.errors}: {one_line(run.last_error)}", space), "red"


def _field(label: str, text: str, width: int, style: str) -> Line:
    return [(f"{label:<{_LABEL}}", "dim"), (fit(text, max(width - _LABEL, 1)), style)]


def _reflection(run: RunProgress, width: int) -> Iterator[Line]:
    """Yield the first words of the last reflection."""
    if not run.reflection:
        return
    text = f"cycle {run.reflection_cycle}: {one_line(run.reflection[:2_000])}"
    space = max(width - _LABEL, 8)
    wrapped = textwrap.wrap(text, space, max_lines=_REFLECTION_LINES, placeholder=" …")
    for number, line in enumerate(wrapped):
        yield _field("" if number else "Reflection", line, width, "italic")


def _table(runs: Sequence[RunProgress], width: int, height: int, now: float, common: str) -> Iterator[Line]:
    """Yield a row for each run, at most `height` of them, without the start of the name that is common to all."""
    if not runs:
        return
    shown = runs if len(runs) <= height else runs[: max(height - 1, 1)]
    longest = max(width // 3, 12)
    rows = [
        {
            "run": fit(one_line(run.run_id.removeprefix(common)), longest),
            "cycle": _count(run),
            "state": f"{one_line(run.tool)}()" if run.tool else state_text(run),
            "tokens/s": rate(run.tokens_per_second),
            "left": "" if (left := run.seconds_left(now)) is None else clock(left),
            "tools": str(run.tool_calls or ""),
            "keys": str(len(run.memory_keys) or ""),
            "similar": _similarity(run),
            "reflection": one_line((run.last_error if run.status == "failed" else run.reflection)[:200]),
        }
        for run in shown
    ]
    columns = ("run", "cycle", "state") if width < NARROW else rows[0]
    known = [name for name in columns if name in ("run", "cycle", "state") or any(row[name] for row in rows)]
    heading, *lines = fitted_table(known, rows, left_out=_DROPPED, width=width, least=_LEAST) or [
        fit("run  cycle", width),
        *(fit(f"{row['run']}  {row['cycle']}", width) for row in rows),
    ]
    yield [(heading, "dim")]
    for run, line in zip(shown, lines, strict=True):
        yield [(line, _STYLES.get(run.status or "", "") if run.has_begun else "dim")]
    if len(shown) < len(runs):
        yield [(f"and {len(runs) - len(shown)} more", "dim")]


def _kind(run: RunProgress) -> str:
    known = ("completed", "failed", "interrupted", "stopped")
    return run.status if run.status in known else "running" if run.has_begun else "waiting"


def _common(runs: Sequence[RunProgress]) -> str:
    """Return the start that the names of all runs have in common, up to a dash; none of a single run."""
    names = [run.run_id.split("-") for run in runs]
    parts = takewhile(lambda each: len(set(each)) == 1, zip(*(name[:-1] for name in names), strict=False))
    return "".join(f"{each[0]}-" for each in parts) if len(names) > 1 else ""


def _similarity(run: RunProgress) -> str:
    return "" if run.similarity is None else f"{run.similarity:.2f} {one_line(run.advisory or '')}".rstrip()


def _count(run: RunProgress) -> str:
    """Return the cycle of a run and the number of its cycles."""
    number = run.cycle_number if run.is_open else run.completed
    return f"{number}/{'?' if run.cycle_count is None else run.cycle_count}"


def _part(run: RunProgress) -> float | None:
    return run.completed / run.cycle_count if run.cycle_count else None


def _total(runs: Sequence[RunProgress]) -> int | None:
    counts = [run.cycle_count for run in runs if run.cycle_count is not None]
    return sum(counts) if counts and len(counts) == len(runs) else None


def _bar(part: float | None, width: int) -> list[tuple[str, str]]:
    """Return a bar of which `part` is filled."""
    if width < 4:
        return []
    filled = 0 if part is None else min(round(part * width), width)
    return [("━" * filled, "green" if filled == width else "cyan"), ("╌" * (width - filled), "dim")]


def _pace(runs: Sequence[RunProgress], now: float, *, short: bool = False) -> list[str]:
    """Return the rate of all runs, and their times."""
    shown = runs if len(runs) == 1 else [run for run in runs if run.status is None]
    rates = [found for run in shown if (found := run.tokens_per_second) is not None]
    return [*([f"{rate(sum(rates))} tokens/s"] if rates else []), *_times(runs, now, short=short)]


def _times(runs: Sequence[RunProgress], now: float, *, short: bool = False) -> list[str]:
    """Return the time that has elapsed, and the estimate of what is left."""
    elapsed, left = seconds_elapsed_of(runs, now), seconds_left_of(runs, now)
    return [
        *([] if elapsed is None else [clock(elapsed) if short else f"{clock(elapsed)} elapsed"]),
        *([] if left is None else [f"{clock(left)} left"]),
    ]


def _joined(parts: Sequence[str], width: int, separator: str = " · ") -> str:
    """Return the parts in one line, without the last ones where they do not fit."""
    shown = [*parts]
    while len(shown) > 1 and display_width(separator.join(shown)) > width:
        shown.pop()
    return fit(separator.join(shown), max(width, 1))
