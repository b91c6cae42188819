"""Interactive charts of a report, as specifications of Vega-Lite: data, from which the page's script draws.

A chart is one panel or several, each a specification of its own, so that they fit beside each other or below. Colours
of text and lines are variables of the page's style sheet, light or dark. What a log contains is only data here: fields
are numbered, so that no name of a run, a tool or an evaluator is read as a field or as an expression.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from textwrap import wrap
from typing import Any, Final, TypeAlias

from ...lazy.lazy_dataclasses import dataclass
from .chart_data import (
    COLOURS,
    FINE,
    LINES,
    MEMORY_COLOURS,
    NUMBERED,
    PANELS,
    Curve,
    Measure,
    calls_of,
    curves_of,
    cycle_axis,
    groups_of,
    mean_of,
    overlaid,
    place_in_row,
    seconds_of,
)
from .html import clean
from .similarity_matrix import Likeness
from .summary import RunSummary

Spec: TypeAlias = Mapping[str, Any]
"""A part of a specification: JSON."""
Field: TypeAlias = tuple[str, str, int | None, str]
"""A line that the pointer shows: a field of the data, its name, the decimals of a number or None, and a colour."""

SHAPES: Final = ("circle", "square", "diamond", "triangle-down", "cross", "triangle-up")

_WORDS: Final = "var(--words)"
_FAINT: Final = "var(--faint)"
_PAPER: Final = "var(--front)"
_WHOLE: Final = ",.0f"
_DASH: Final = 6  # of equal curves, in pixels
_POINTS: Final = 30  # a curve of so many has a point for each
_BASELINE: Final[Spec] = {"value": "height"}


@dataclass(frozen=True, slots=True)
class Panel:
    """A specification, what the pointer shows of its data, and the height of the plot: None is that of a square."""

    spec: Spec
    fields: Sequence[Field]
    height: int | None = 180


@dataclass(frozen=True, slots=True)
class Chart:
    """The panels of a chart with a common key, a name and a colour each.

    `runs` are the names of the runs that may be hidden: the parameter `shown` of each specification has the fields,
    `r0` and so on, of those that are not.
    """

    panels: Sequence[Panel]
    key: Sequence[tuple[str, str]] = ()
    runs: Sequence[str] = ()

    def json(self, title: str) -> str:
        """Return the chart as JSON that can stand in an element of a page."""
        panels = [{"spec": each.spec, "fields": each.fields, "height": each.height} for each in self.panels]
        key = [(clean(name), colour) for name, colour in self.key]
        chart = {"title": clean(title), "panels": panels, "key": key, "runs": [*map(clean, self.runs)]}
        return embedded_json(chart)


def embedded_json(value: object) -> str:
    """Return `value` as JSON in which no character ends an element of a page. The same value gives the same text."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), sort_keys=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def similarity_chart(found: Likeness) -> Chart:
    """Return the half of the matrix that has each pair once, with its diagonal."""
    rows = [
        {"a": cycle, "b": found.cycles[: at + 1], "s": [round(score, 2) + 0.0 for score in scores[: at + 1]]}
        for at, (cycle, scores) in enumerate(zip(found.cycles, found.scores, strict=True))
    ]
    lowest = min(0.0, *(min(row) for row in found.scores))
    place = {"type": "ordinal", "sort": None, "scale": {"padding": 0}}
    axis = {
        "labelAngle": 0,
        "labelOverlap": True,
        "labelSeparation": 6,
        "ticks": False,
        "domain": False,
        "title": "cycle",
    }
    x, y = ({"field": field, **place, "axis": axis} for field in "ba")
    legend = {"title": None, "orient": "top", "direction": "horizontal", "gradientThickness": 10}
    scale = {"scheme": "blues", "domain": [lowest, 1]}
    cells: list[Spec] = [
        {
            "name": "band",
            "mark": "rect",
            "encoding": {"color": {"field": "s", "type": "quantitative", "scale": scale, "legend": legend}},
        }
    ]
    if len(found.cycles) <= NUMBERED:
        light = {
            "condition": {"test": f"datum.s > {lowest + 0.6 * (1 - lowest):.2f}", "value": "#fff"},
            "value": "#000",
        }
        text = {"field": "s", "type": "quantitative", "format": ".2f"}
        cells.append({"mark": {"type": "text", "fontSize": 10}, "encoding": {"text": text, "color": light}})
    spec = {
        "title": "cosine similarity of the reflections",
        "data": {"values": rows},
        "transform": [{"flatten": ["b", "s"]}],
        "encoding": {"x": x, "y": y},
        "layer": cells,
    }
    return Chart(
        [Panel(spec, [("a", "cycle", None, ""), ("b", "and cycle", None, ""), ("s", "similarity", 2, "")], None)]
    )


def memory_chart(run: RunSummary) -> Chart:
    """Return the memory operations of each cycle, by tool, and the number of keys in memory."""
    parts = {tool: calls_of(tool) for tool in MEMORY_COLOURS if any(cycle.memory_ops[tool] for cycle in run.cycles)}
    colours = [MEMORY_COLOURS[tool] for tool in parts]
    keys: dict[str, Measure] = {"keys": lambda cycle: cycle.memory_keys} if run.cycles else {}
    panels = (
        _stacked("memory operations per cycle", run, parts, colours),
        _stacked("keys in memory at the end of the cycle", run, keys, [_FAINT], height=110),
    )
    return Chart(panels, [*zip(parts, colours, strict=True)])


def tools_chart(tools: Sequence[tuple[str, int, int]]) -> Chart:
    """Return the calls of each tool, from its name, its calls and its errors."""
    rows = [
        {"t": at, "n": clean(name) or "(no name)", "v0": calls - errors, "v1": errors, "all": calls}
        for at, (name, calls, errors) in enumerate(tools)
    ]
    failed = any(errors for _, _, errors in tools)
    names = [row["n"] for row in rows]
    axis = {
        "title": None, "ticks": False, "domain": False, "labelColor": _WORDS, "labelLimit": 170,
        "labelExpr": "names[datum.value]",
    }  # fmt: skip
    y = {"field": "t", "type": "ordinal", "sort": None, "axis": axis}
    x = {"field": "v", "type": "quantitative", "axis": None}
    spec = {
        "title": "calls of each tool",
        "params": [{"name": "names", "value": names}],
        "data": {"values": rows},
        "encoding": {"y": y},
        "layer": [
            {
                "transform": [{"fold": ["v0", "v1"], "as": ["k", "v"]}],
                "mark": "bar",
                "encoding": {"x": x, "color": _colour(["v0", "v1"], COLOURS[:2]), "order": {"field": "k"}},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 5, "color": _WORDS},
                "encoding": {"x": {**x, "field": "all"}, "text": {"field": "all", "format": ","}},
            },
            _band(),
        ],
    }
    key = [("answered", COLOURS[0]), ("answered with an error", COLOURS[1])] if failed else []
    fields = [("n", "tool", None, ""), ("all", "calls", 0, ""), ("v1", "errors", 0, COLOURS[1])]
    return Chart([Panel(spec, fields, 26 * len(rows))], key)


def tokens_chart(run: RunSummary) -> Chart:
    """Return the input and output tokens of each cycle."""
    read: dict[str, Measure] = {"input": lambda cycle: cycle.input_tokens}
    wrote: dict[str, Measure] = {"output": lambda cycle: cycle.output_tokens}
    panels = (
        _stacked("input tokens per cycle, all steps together", run, read, COLOURS[:1], height=140),
        _stacked("output tokens per cycle", run, wrote, COLOURS[1:2], height=140),
    )
    return Chart(panels)


def time_chart(run: RunSummary) -> Chart:
    """Return the seconds of each cycle, by what took them."""
    parts = seconds_of(run)
    colours = [*(COLOURS[0], COLOURS[5], _FAINT)[: len(parts)]]
    panel = _stacked("seconds per cycle", run, parts, colours)
    return Chart([panel], [*zip(parts, colours, strict=True)] if len(parts) > 1 else ())


def ratings_chart(rows: Mapping[str, Mapping[str, Sequence[int]]], levels: Sequence[str], *, runs: bool) -> Chart:
    """Return ratings, with a row for each key, which is a run if `runs`, and a colour for each evaluator."""
    evaluators = [*dict.fromkeys(evaluator for row in rows.values() for evaluator in row)]
    keys = [f"e{number}" for number in range(len(evaluators))]
    colours = [COLOURS[(number + number // LINES) % LINES] for number in range(len(evaluators))]
    dots = [
        {"r": f"r{at}", "row": clean(key), "e": f"e{evaluators.index(evaluator)}", "by": clean(evaluator), **dot}
        for at, (key, row) in enumerate(rows.items())
        for number, (evaluator, ratings) in enumerate(row.items())
        for dot in _dots(ratings, min(0.2, 0.56 / len(row)) * (number - (len(row) - 1) / 2) + 0.12, levels)
    ]
    names = [{"r": f"r{at}", "row": clean(key)} for at, key in enumerate(rows)]
    shown: list[Spec] = [{"filter": "indexof(shown, datum.r) >= 0"}] if runs else []
    y = {"field": "r", "type": "ordinal", "sort": None, "axis": None, "scale": {"padding": 0}}
    offset = {"field": "o", "type": "quantitative", "scale": {"domain": [-0.5, 0.5], "zero": False}}
    scale = {"domain": [0.5, len(levels) + 0.5], "nice": False, "zero": False}
    axis = {
        "title": None, "values": [*range(1, len(levels) + 1)], "ticks": False, "labelColor": _WORDS,
        "labelExpr": "width < 760 ? datum.label : levels[datum.value - 1]", "labelFlush": False, "grid": True,
    }  # fmt: skip
    x = {"field": "x", "type": "quantitative", "scale": scale, "axis": axis}
    look = {
        "color": _colour(keys, colours),
        "shape": {"field": "e", "type": "nominal", "legend": None,
                  "scale": {"domain": keys, "range": [SHAPES[number % len(SHAPES)] for number in range(len(keys))]}},
    }  # fmt: skip
    dot = {"type": "point", "filled": True, "opacity": 1, "size": 90, "stroke": _PAPER, "strokeWidth": 1}
    mean = {"type": "point", "filled": False, "opacity": 1, "size": 900, "strokeWidth": 2.5, "shape": "M0,-0.5V0.5"}
    name = {"type": "text", "align": "left", "dx": 4, "fontWeight": "bold", "limit": {"expr": "width - 8"}}
    named = [str(number) for number in range(1, len(levels) + 1)]
    spec = {
        "title": "PEI ratings (bar: mean of repeats)",
        "params": [
            *_shown(len(rows) if runs else 0),
            {"name": "levels", "value": [[n, *wrap(level, 11)] for n, level in zip(named, levels, strict=True)]},
        ],
        "height": {"step": 66, "for": "position"},
        "layer": [
            {
                "data": {"values": names},
                "transform": [*shown, {"calculate": "-0.36", "as": "o"}],
                "mark": {**name, "color": _WORDS},
                "encoding": {"y": y, "yOffset": offset, "x": {"value": 0}, "text": {"field": "row"}},
            },
            {
                "name": "band",
                "data": {"values": [each for each in dots if "mean" not in each]},
                "transform": shown,
                "mark": dot,
                "encoding": {"x": x, "y": y, "yOffset": offset, **look},
            },
            {
                "data": {"values": [each for each in dots if "mean" in each]},
                "transform": shown,
                "mark": mean,
                "encoding": {"x": x, "y": y, "yOffset": offset, "color": look["color"]},
            },
        ],
    }
    fields = [
        ("row", "run", None, ""),
        ("by", "evaluator", None, ""),
        ("n", "level", None, ""),
        ("mean", "mean", 2, ""),
    ]
    several = runs and len(evaluators) > 1
    key = [*zip(evaluators, colours, strict=True)] if several else ()
    return Chart([Panel(spec, fields if runs else fields[1:], 0)], key, [*rows] if runs else ())


def comparison_chart(runs: Mapping[str, RunSummary]) -> Chart:
    """Return the runs laid over each other, cycle by cycle; more than `LINES` are grey, with their median in colour."""
    panels = [_laid_over(title, curves_of(runs, measure)) for title, measure in PANELS]
    return Chart(panels, [("median of the runs", COLOURS[1])] if len(runs) > LINES else (), [*runs])


def _stacked(
    title: str,
    run: RunSummary,
    parts: Mapping[str, Measure],
    colours: Sequence[str],
    height: int = 180,
) -> Panel:
    """Return a panel of stacked bars."""
    keys = [f"v{number}" for number in range(len(parts))]
    rows = list[dict[str, Any]]()
    for group in groups_of(run):
        first, last = group[0].number, group[-1].number
        values = [round(mean_of(group, measure), 3) for measure in parts.values()]
        span = str(first) if first == last else f"{first} to {last}"
        rows.append({"c": first, "l": span, **dict(zip(keys, values, strict=True))})
    axis = {"labelAngle": 0, "labelOverlap": True, "labelSeparation": 6, "ticks": False, "title": cycle_axis(run)}
    # A few bars would be walls in the whole width.
    scale = {"paddingInner": 0.2, "paddingOuter": max(0.2, (6 - len(rows)) / 2)}
    x = {"field": "c", "type": "ordinal", "sort": None, "axis": axis, "scale": scale}
    y = {
        "field": "v",
        "type": "quantitative",
        "axis": _value_axis(max((sum(row[key] for key in keys) for row in rows), default=0)),
    }
    bars = {
        "transform": [{"fold": keys, "as": ["k", "v"]}],
        "mark": "bar",
        "encoding": {"y": y, "color": _colour(keys, colours), "order": {"field": "k"}},
    }
    spec = {"title": title, "data": {"values": rows}, "encoding": {"x": x}, "layer": [bars, _band()]}
    digits = _digits(row[key] for row in rows for key in keys)
    named = [(key, name, digits, colour) for key, name, colour in zip(keys, parts, colours, strict=True)]
    return Panel(spec, [("l", "cycle", None, ""), *named], height)


def _laid_over(title: str, curves: Mapping[str, Curve]) -> Panel:
    """Return a panel with a curve for each run."""
    keys = [f"r{number}" for number in range(len(curves))]
    rows = dict[int, dict[str, float]]()
    for key, points in zip(keys, curves.values(), strict=True):
        for cycle, value in points:
            rows.setdefault(cycle, {"c": cycle})[key] = round(value, 3)
    values = [value for points in curves.values() for _, value in points]
    if not values:
        nothing: Spec = {"mark": {"type": "text", "text": "not logged", "color": _FAINT}, "data": {"values": [{}]}}
        return Panel({"title": title, "params": _shown(len(keys)), **nothing}, ())
    axis = {"labelAngle": 0, "labelOverlap": True, "labelSeparation": 6, "ticks": False, "title": "cycle"}
    x = {"field": "c", "type": "ordinal", "sort": {"field": "c", "op": "min"}, "axis": axis, "scale": {"type": "band"}}
    y = {"field": "v", "type": "quantitative", "axis": _value_axis(max(values))}
    lines = [*_lines(keys, [*curves.values()])] if len(curves) <= LINES else _median(y)
    spec = {
        "title": title,
        "params": _shown(len(keys)),
        "data": {"values": [rows[cycle] for cycle in sorted(rows)]},
        "transform": [
            {"fold": keys, "as": ["k", "v"]},
            {"filter": "isValid(datum.v) && indexof(shown, datum.k) >= 0"},
        ],
        "encoding": {"x": x},
        "layer": [
            *({**line, "encoding": {"y": y, **line.get("encoding", {})}} for line in lines),
            {"transform": [{"pivot": "k", "value": "v", "groupby": ["c"]}], **_band()},
        ],
    }  # fmt: skip
    digits = _digits(values)
    colours = COLOURS if len(curves) <= LINES else ("",) * len(curves)
    named = [(key, clean(name), digits, colour) for key, name, colour in zip(keys, curves, colours, strict=False)]
    return Panel(spec, [("c", "cycle", None, ""), *named])


def _lines(keys: Sequence[str], curves: Sequence[Curve]) -> Iterator[Spec]:
    """Yield the curve of each run, the longest first. One on others has gaps in which they are seen, if shown."""
    by_key = dict(zip(keys, curves, strict=True))
    for key, equal in overlaid(by_key).items():
        place, number = equal.index(key), keys.index(key)
        colour = COLOURS[number]
        mark: dict[str, Any] = {"type": "line", "color": colour, "strokeWidth": 2, "strokeCap": "butt"}
        if len(by_key[key]) <= _POINTS:
            size = 36 + 40 * (len(equal) - 1 - place)  # the first is the lowest, and the largest
            mark["point"] = {"color": colour, "shape": SHAPES[number], "size": size}
        if place:
            below = " || ".join(f"indexof(shown, '{other}') >= 0" for other in equal[:place])
            gaps = f"[{_DASH * (len(equal) - place)}, {_DASH * place}]"
            mark["strokeDash"] = {"expr": f"{below} ? {gaps} : [1, 0]"}
        yield {"transform": [{"filter": f"datum.k === '{key}'"}], "mark": mark}


def _median(y: Spec) -> Sequence[Spec]:
    """Return all curves in grey, and their median."""
    grey = {"type": "line", "color": _FAINT, "opacity": 0.35, "strokeWidth": 1}
    middle = {"type": "line", "color": COLOURS[1], "strokeWidth": 2.5}
    return (
        {"mark": grey, "encoding": {"detail": {"field": "k"}}},
        {"mark": middle, "encoding": {"y": {**y, "aggregate": "median"}}},
    )


def _dots(ratings: Sequence[int], at: float, levels: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield one evaluator's ratings, equal ones side by side, and their mean."""
    for rating, place in place_in_row(ratings):
        yield {"x": round(place, 3), "o": round(at, 3), "n": f"{rating}, {levels[rating - 1]}"}
    if len(ratings) > 1:
        mean = fmean(ratings)
        yield {"x": round(mean, 3), "o": round(at, 3), "mean": round(mean, 3)}


def _band() -> Spec:
    """Return the layer in which the pointer finds a whole row or column, however small its bars are."""
    return {"name": "band", "mark": {"type": "rect", "fill": _WORDS, "fillOpacity": 0}}


def _colour(keys: Sequence[str], colours: Sequence[str]) -> Spec:
    """Return the colours of the field `k`, or of evaluators `e`. The page has the key."""
    field = "e" if keys and keys[0].startswith("e") else "k"
    return {"field": field, "type": "nominal", "legend": None, "scale": {"domain": keys, "range": colours}}


def _digits(values: Iterable[float]) -> int:
    """Return the digits after the point that the values need."""
    return 0 if all(float(value).is_integer() for value in values) else 2


def _value_axis(highest: float) -> Spec:
    axis = {"title": None, "tickCount": 5, "domain": False, "ticks": False}
    return axis | ({"format": _WHOLE, "tickMinStep": 1} if highest > FINE else {})


def _shown(count: int) -> list[Spec]:
    """Return the parameter that the page sets to the runs that are not hidden."""
    return [{"name": "shown", "value": [f"r{number}" for number in range(count)]}] if count else []
