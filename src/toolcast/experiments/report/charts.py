"""Charts of a report: of one run, cycle by cycle, and of several runs side by side.

Each function takes data and returns a `Picture`, which has its interactive form of `chart_specs` too. In a run with too
many cycles for single bars, each bar is the mean of some consecutive cycles, and the axis has their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from math import ceil, nan
from statistics import fmean, median
from textwrap import wrap
from typing import Any, Final

from .chart_data import (
    COLOURS,
    FINE,
    LINES,
    MEMORY_COLOURS,
    NUMBERED,
    PANELS,
    Measure,
    calls_of,
    curves_of,
    cycle_axis,
    cycles_per_bar,
    groups_of,
    mean_of,
    overlaid,
    place_in_row,
    seconds_of,
)
from .chart_rendering import FAINT, INK, MARKERS, PAPER, Axes, Figure, Picture, contrasting, label, labels
from .chart_specs import (
    Chart,
    comparison_chart,
    memory_chart,
    ratings_chart,
    similarity_chart,
    time_chart,
    tokens_chart,
    tools_chart,
)
from .similarity_matrix import Likeness
from .summary import RunSummary

_NAMED: Final = 25  # an axis of so many cycles has the number of each
_LINE: Final = 100  # letters that stand beside each other
_DASH: Final = 4  # of equal curves, in widths of the line


def similarity_picture(name: str, found: Likeness) -> Picture:
    """Draw the similarity of all reflections: the half of the matrix that has each pair once, with its diagonal."""
    cycles = found.cycles

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        lowest = min(0.0, *(min(row) for row in found.scores))
        half = [[*row[: at + 1], *[nan] * (len(row) - at - 1)] for at, row in enumerate(found.scores)]
        image = axes.imshow(half, cmap="Blues", vmin=lowest, vmax=1, interpolation="none")
        axes.grid(visible=False)
        ticks = range(0, len(cycles), max(1, ceil(len(cycles) / 15)))
        axes.set_xticks(ticks, [str(cycles[at]) for at in ticks])
        axes.set_yticks(ticks, [str(cycles[at]) for at in ticks])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set(xlabel="cycle", ylabel="cycle", title="cosine similarity of the reflections")
        bar = figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02)
        bar.outline.set_visible(False)
        for row, scores in enumerate(found.scores if len(cycles) <= NUMBERED else ()):
            for column, score in enumerate(scores[: row + 1]):
                red, green, blue, _ = image.to_rgba(score, bytes=True)
                colour = contrasting(f"#{red:02x}{green:02x}{blue:02x}")
                axes.text(column, row, f"{score:z.2f}", ha="center", va="center", color=colour, fontsize=9)

    alt = f"Matrix of the similarity of {len(cycles)} reflections, each with each."
    if pairs := found.pairs:
        score, one, other = pairs[0]
        alt += f" The most alike are those of cycles {one} and {other}, with {score:z.2f}."
    return Picture(name, alt, 7.2 if len(cycles) > 4 else 4.5, draw, lambda: similarity_chart(found))


def memory_picture(name: str, run: RunSummary) -> Picture:
    """Draw the memory operations of each cycle, by tool, and the number of keys in memory."""

    def draw(figure: Figure) -> None:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        parts = {tool: calls_of(tool) for tool in MEMORY_COLOURS}
        _stacked(upper, run, parts, tuple(MEMORY_COLOURS.values()))
        upper.set_title("memory operations per cycle")
        _legend(figure, upper)
        numbers = [cycle.number for cycle in run.cycles]
        keys = [cycle.memory_keys for cycle in run.cycles]
        marker = "o" if len(keys) <= _NAMED else ""
        lower.plot(numbers, keys, drawstyle="steps-mid", color=INK, linewidth=1.8, marker=marker, markersize=5)
        lower.set_title("keys in memory at the end of the cycle")
        lower.set_ylim(0, 1.1 * max(*keys, 1))
        _whole_numbers(lower.yaxis)
        _cycles_below(lower, run)

    total = {tool: sum(cycle.memory_ops[tool] for cycle in run.cycles) for tool in MEMORY_COLOURS}
    text = ", ".join(f"{count} {tool}" for tool, count in total.items() if count) or "none"
    return Picture(
        name,
        f"Memory operations per cycle, and the keys in memory. In all: {text}.",
        5.0,
        draw,
        lambda: memory_chart(run),
    )


def tools_picture(name: str, run: RunSummary) -> Picture:
    """Draw the number of calls of each tool, and of its errors."""
    tools = [*run.tools.items()][:15]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        names = [label(tool) for tool, _ in tools]
        rows = range(len(tools))
        good = [use.calls - use.errors for _, use in tools]
        bad = [use.errors for _, use in tools]
        axes.barh(rows, good, color=COLOURS[0], label="answered", height=0.7)
        if any(bad):
            axes.barh(rows, bad, left=good, color=COLOURS[1], label="answered with an error", height=0.7)
            _legend(figure, axes)
        for row, (_, use) in enumerate(tools):
            text = f"{use.calls:,}" + (f" ({use.errors:,} errors)" if use.errors else "")
            axes.annotate(text, (use.calls, row), (5, 0), textcoords="offset points", va="center_baseline", color=INK)
        axes.set_yticks(rows, names)
        axes.invert_yaxis()
        axes.margins(x=0.15)
        axes.grid(visible=False)
        axes.tick_params(axis="y", labelcolor=INK)
        axes.xaxis.set_visible(False)
        axes.spines["bottom"].set_visible(False)
        axes.set_title("calls of each tool")

    def chart() -> Chart:
        return tools_chart([(tool, use.calls, use.errors) for tool, use in tools])

    text = ", ".join(f"{tool} {use.calls}" for tool, use in tools)
    return Picture(name, f"Calls of each tool: {text}.", 0.9 + 0.36 * len(tools), draw, chart)


def tokens_picture(name: str, run: RunSummary) -> Picture:
    """Draw the input and output tokens of each cycle."""

    def draw(figure: Figure) -> None:
        upper, lower = figure.subplots(2, 1, sharex=True)
        _stacked(upper, run, {"input": lambda cycle: cycle.input_tokens}, COLOURS[:1])
        _stacked(lower, run, {"output": lambda cycle: cycle.output_tokens}, COLOURS[1:2])
        upper.set_title("input tokens per cycle, all steps together")
        lower.set_title("output tokens per cycle")
        _cycles_below(lower, run)

    read, wrote = run.total(lambda cycle: cycle.input_tokens), run.total(lambda cycle: cycle.output_tokens)
    return Picture(
        name,
        f"Tokens per cycle. In all {read or 0:,} of input and {wrote or 0:,} of output.",
        4.6,
        draw,
        lambda: tokens_chart(run),
    )


def time_picture(name: str, run: RunSummary) -> Picture:
    """Draw the seconds of each cycle: of the model, of the tools, and the rest."""
    parts = seconds_of(run)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        _stacked(axes, run, parts, (COLOURS[0], COLOURS[5], FAINT))
        axes.set_title("seconds per cycle")
        if len(parts) > 1:
            _legend(figure, axes)
        _cycles_below(axes, run)

    total = run.total(lambda cycle: cycle.seconds) or 0.0
    return Picture(name, f"Seconds per cycle. In all {total:,.0f} seconds.", 3.4, draw, lambda: time_chart(run))


def ratings_picture(
    name: str, rows: Mapping[str, Mapping[str, Sequence[int]]], levels: Sequence[str], *, runs: bool = False
) -> Picture:
    """Draw ratings, with a row for each key and a colour for each evaluator.

    `levels` are the scale's names, and the keys are runs if `runs`, otherwise evaluators.
    """
    evaluators = [*dict.fromkeys(evaluator for row in rows.values() for evaluator in row)]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for at, (key, row) in enumerate(rows.items()):
            # Beside the axis a long name would leave the levels less room than their names need.
            axes.text(0.55, at - 0.36, label(key, _LINE - 10), color=INK, va="center", fontweight="bold", fontsize=9)
            for number, (evaluator, ratings) in enumerate(row.items()):
                apart = min(0.2, 0.56 / len(row))
                place = at + 0.12 + apart * (number - (len(row) - 1) / 2)
                _dots(axes, place, ratings, evaluators.index(evaluator))
        if len(evaluators) > 1 and any([*row] != [name] for name, row in rows.items()):
            for number, named in enumerate(labels(evaluators).values()):
                marker, colour = _look(number)
                axes.plot([], [], marker, color=colour, label=named)
            _legend(figure, axes)
        axes.set_yticks([])
        axes.set_ylim(len(rows) - 0.5, -0.6)
        axes.set_xlim(0.5, len(levels) + 0.5)
        names = ["\n".join([str(number), *wrap(label(text), 11)]) for number, text in enumerate(levels, 1)]
        axes.set_xticks(range(1, len(levels) + 1), names, fontsize=9)
        axes.grid(visible=True, axis="both")
        axes.tick_params(length=0, labelcolor=INK)
        axes.set_title("PEI ratings (bar: mean of repeats)")

    def chart() -> Chart:
        return ratings_chart(rows, levels, runs=runs)

    text = "; ".join(
        f"{row}: " + ", ".join(f"{by} {fmean(ratings):.1f}" for by, ratings in given.items() if ratings)
        for row, given in rows.items()
    )
    return Picture(name, f"PEI ratings, means. {text}.", 1.7 + 0.75 * len(rows), draw, chart)


def comparison_picture(name: str, runs: Mapping[str, RunSummary]) -> Picture:
    """Draw several runs in one chart, cycle by cycle. More than `LINES` are grey, with their median in colour."""

    def draw(figure: Figure) -> None:
        panels: Any = figure.subplots(2, 2, sharex=True)
        for axes, (title, measure) in zip(panels.flat, PANELS, strict=True):
            axes.set_title(title)
            _laid_over(axes, runs, measure)
            _whole_numbers(axes.xaxis)
        for axes in panels[1]:
            axes.set_xlabel("cycle")
        _legend(figure, panels[0][1])

    what = "; ".join(title for title, _ in PANELS)
    return Picture(
        name,
        f"{len(runs)} runs laid over each other, cycle by cycle: {what}.",
        6.4,
        draw,
        lambda: comparison_chart(runs),
    )


def _stacked(axes: Axes, run: RunSummary, parts: Mapping[str, Measure], colours: Sequence[str]) -> None:
    """Draw stacked bars."""
    groups = [*groups_of(run)]
    places = [fmean((group[0].number, group[-1].number)) for group in groups]
    below = [0.0] * len(groups)
    for (name, measure), colour in zip(parts.items(), colours, strict=False):
        heights = [mean_of(group, measure) for group in groups]
        if any(heights):
            axes.bar(places, heights, 0.8 * cycles_per_bar(run), below, color=colour, label=name, linewidth=0.5)
            below = [low + height for low, height in zip(below, heights, strict=True)]
    if max(below) > FINE or all(top.is_integer() for top in below):
        _whole_numbers(axes.yaxis)
    axes.set_ylim(0, 1.05 * (max(below) or 1))


def _dots(axes: Axes, at: float, ratings: Sequence[int], number: int) -> None:
    """Draw one evaluator's ratings, equal ones side by side, and their mean."""
    marker, colour = _look(number)
    for _, place in place_in_row(ratings):
        axes.plot([place], [at], marker, color=colour, markersize=7, markeredgecolor=PAPER)
    if len(ratings) > 1:
        axes.plot([fmean(ratings)] * 2, [at - 0.12, at + 0.12], color=colour, linewidth=2.5)


def _look(number: int) -> tuple[str, str]:
    """Return the marker and the colour of one of several; the first 36 are distinct."""
    return MARKERS[number % LINES], COLOURS[(number + number // LINES) % LINES]


def _laid_over(axes: Axes, runs: Mapping[str, RunSummary], measure: Measure) -> None:
    few = len(runs) <= LINES
    at = dict[int, list[float]]()
    curves = curves_of(runs, measure)
    equal, named = overlaid(curves), labels([*curves])
    for number, (name, points) in enumerate(curves.items()):
        for cycle, value in points:
            at.setdefault(cycle, []).append(value)
        xs, ys = [cycle for cycle, _ in points], [value for _, value in points]
        if few:
            marker, colour = _look(number)
            marker = marker if len(points) <= 30 else ""
            look = _interleaved(equal[name].index(name), len(equal[name]))
            axes.plot(xs, ys, color=colour, marker=marker, markersize=5, linewidth=1.6, label=named[name], **look)
        else:
            axes.plot(xs, ys, color=FAINT, alpha=0.35, linewidth=0.8)
    if not at:
        axes.text(0.5, 0.5, "not logged", transform=axes.transAxes, ha="center", va="center", color=FAINT)
        axes.set_yticks([])
        return
    lowest, highest = min(map(min, at.values())), max(map(max, at.values()))
    axes.set_ylim(1.05 * min(lowest, 0), 1.05 * max(highest, 0) or (0 if lowest < 0 else 1))
    if not few:
        xs = sorted(at)
        axes.plot(xs, [median(at[x]) for x in xs], color=COLOURS[1], linewidth=2.4, label=f"median of {len(runs)} runs")


def _interleaved(place: int, count: int) -> dict[str, Any]:
    """Return the line style of one of `count` equal curves: it has gaps in which those below it are seen."""
    if count == 1:
        return {}
    line = (0, (_DASH * (count - place), _DASH * place)) if place else "-"
    return {"linestyle": line, "markevery": (place, count), "zorder": 2 + place / count}


def _legend(figure: Figure, axes: Axes) -> None:
    """Draw the legend, above all."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        fitting = _LINE // (max(map(len, labels)) + 6)
        key = figure.legend(handles, labels, loc="outside upper right", ncols=min(len(handles), max(fitting, 1)))
        for line in key.get_lines():
            if line.get_linestyle() == "--":  # a curve that takes turns with an equal one
                line.set_linestyle("-")


def _cycles_below(axes: Axes, run: RunSummary) -> None:
    """Label the axis of the cycles."""
    axes.set_xlabel(cycle_axis(run))
    if len(run.cycles) <= _NAMED:
        axes.set_xticks([cycle.number for cycle in run.cycles])
    else:
        _whole_numbers(axes.xaxis)
    margin = 0.6 + max(0.0, (6 - len(run.cycles)) / 2)  # so that the bars of a few are no walls
    axes.set_xlim(run.cycles[0].number - margin, run.cycles[-1].number + margin)
    axes.tick_params(axis="x", length=0)


def _whole_numbers(axis: Any) -> None:
    """Set ticks at integers, written in full."""
    ticker: Any = import_module("matplotlib.ticker")
    axis.set_major_locator(ticker.MaxNLocator(nbins="auto", integer=True, min_n_ticks=1))
    axis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
