"""Sections of one run on the page: its configuration, cycles, reflections, tools, memory and ratings.

A chart is always beside a table with the same figures. Long content is cut, with a note on the page; the log has all of
it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from ...lazy.lazy_dataclasses import dataclass
from ..pei.agreement import EvaluatorRatings, PEIResult, agreement
from ..pei.scale import PEI_SCALE
from .chart_rendering import Picture
from .html import Cell, Fold, Section, Table, Value
from .similarity_matrix import Likeness
from .summary import UNFINISHED, CycleSummary, RunError, RunSummary, moment

NOTHING: Final = "–"
_NOT_LOGGED: Final = "not logged"
_ERRORS: Final = 50
_MESSAGE: Final = 600
_PAIRS: Final = 5
_TONES: Final[Mapping[str, str]] = {"completed": "good", "failed": "bad"}


@dataclass(frozen=True, slots=True)
class Share:
    """The share of the page for one run: rows of a table, characters of all its reflections together."""

    rows: int = 1_000
    chars: int = 1_500_000


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """The data of one run on the page. `name` is its id, or its log if another run has the same id."""

    name: str
    slug: str
    summary: RunSummary
    likeness: Likeness = field(default_factory=Likeness)
    ratings: Sequence[PEIResult] = ()
    pictures: Mapping[str, Picture] = field(default_factory=dict[str, Picture])
    torn: bool = False

    @property
    def rated(self) -> dict[str, list[int]]:
        """The levels by evaluator."""
        found = dict[str, list[int]]()
        for result in self.ratings:
            if result.pei_rating is not None:
                found.setdefault(result.evaluator_model, []).append(result.pei_rating)
        return found

    def drawn(self, kind: str) -> Sequence[Picture]:
        """Return the chart of this kind, if there is one."""
        return [self.pictures[kind]] if kind in self.pictures else []


@dataclass(frozen=True, slots=True)
class RunPage:
    """The part of the page that is about one run."""

    name: str
    slug: str
    facts: Sequence[tuple[str, Value]]
    notes: Sequence[str]
    config: str
    sections: Sequence[Section]


def run_page(run: ReportedRun, share: Share) -> RunPage:
    """Return the sections of one run."""
    found, summary = list[Section](), run.summary
    found += _errors(summary)
    found.append(_cycles(summary, share))
    found += _tokens(run)
    found += (_tools(run), _memory(run), _likeness(run))
    found += _ratings(run)
    found.append(_reflections(summary, share))
    config = json.dumps(dict(summary.config), indent=2, ensure_ascii=False, default=str) if summary.config else ""
    return RunPage(run.name, run.slug, _facts(summary), [*_notes(run)], config, found)


def count(value: float | None) -> str:
    """Format an integer, or a dash."""
    return NOTHING if value is None else f"{value:z,.0f}"


def decimal(value: float | None, digits: int = 2) -> str:
    """Format a number with its digits, or a dash."""
    return NOTHING if value is None else f"{value:z,.{digits}f}"


def duration(seconds: float | None) -> str:
    """Format seconds for reading."""
    if seconds is None:
        return _NOT_LOGGED
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"


def first_words(text: str, most: int = 44) -> str:
    """Return the first words of `text` on one line."""
    words = " ".join(text[: 4 * most].split())
    if len(words) <= most:
        return words or NOTHING
    return f"{words[: most + 1].rpartition(' ')[0] or words[:most]}…"


def status_of(summary: RunSummary) -> Cell:
    """Return the status of the run, with its colour."""
    status = summary.status or _NOT_LOGGED
    return Cell(status, "status", _TONES.get(status, "warn"))


def _facts(summary: RunSummary) -> list[tuple[str, Value]]:
    planned = summary.config.get("cycle_count")
    cycles = f"{summary.ended_cycles:,}" + (f" of {planned}" if planned is not None else "")
    read, wrote = summary.total(lambda cycle: cycle.input_tokens), summary.total(lambda cycle: cycle.output_tokens)
    return [
        ("Status", status_of(summary)),
        ("Cycles", cycles),
        ("Model", summary.model_name or _NOT_LOGGED),
        ("Begun", _time(summary.started)),
        ("Last line", _time(summary.last)),
        ("Time in cycles", duration(summary.total(lambda cycle: cycle.seconds))),
        ("Tokens in", _NOT_LOGGED if read is None else count(read)),
        ("Tokens out", _NOT_LOGGED if wrote is None else count(wrote)),
        ("Tokens/s", _NOT_LOGGED if summary.tokens_per_second is None else decimal(summary.tokens_per_second, 1)),
        ("Tool calls", count(sum(cycle.tool_calls for cycle in summary.cycles))),
        ("Errors", count(summary.failures)),
        ("Limits reached", count(len(summary.errors) - summary.failures)),
        ("toolcast", summary.toolcast_version or _NOT_LOGGED),
        ("Lines in the log", count(summary.lines)),
    ]


def _notes(run: ReportedRun) -> Iterator[str]:
    """Yield the notes that are needed to read the figures."""
    summary = run.summary
    if summary.status == UNFINISHED:
        yield "The log has no RUN_END: the run is going on, or it was killed. `--resume` goes on with it."
    if summary.starts > 1:
        yield f"The run was resumed: its log has {summary.starts} beginnings."
    if not summary.starts:
        yield (
            "Another program wrote the log, or its beginning is missing: configuration and status are not in it. "
            "Seconds are taken from the timestamps."
        )
    if open_cycles := [str(cycle.number) for cycle in summary.cycles if not cycle.ended]:
        yield f"Not ended: cycle {', '.join(open_cycles[:10])}{' and more' if len(open_cycles) > 10 else ''}."
    if again := summary.begun_again:
        yield f"The log begins some cycles more than once ({len(again)}); what counts is the last time."
    if run.torn:
        yield "The last line of the log was cut off, as by a kill. It was left out."


def _errors(summary: RunSummary) -> Iterator[Section]:
    errors = summary.errors
    if not errors:
        return
    shown = errors[:_ERRORS]
    cut = len(errors) - len(shown)
    head = ("Cycle", "Time", "Kind", "Stage", "Error", "Message")
    caption = "The ERROR lines of the log." + (f" The first {_ERRORS}; {cut:,} more are in the log." if cut else "")
    rows = [_error_row(error) for error in shown]
    yield Section("Errors and limits", table=Table(caption, head, rows, words=range(1, 6)))


def _error_row(error: RunError) -> Sequence[Value]:
    message = error.message if len(error.message) <= _MESSAGE else f"{error.message[:_MESSAGE]}…"
    where = str(error.cycle) if error.cycle else NOTHING
    return where, _time(error.timestamp), error.kind, error.stage, error.error_type, Cell(message, "prose")


_COLUMNS: Final[Mapping[str, Callable[[CycleSummary], Value]]] = {
    "Cycle": lambda cycle: str(cycle.number),
    "Ended by": lambda cycle: (cycle.ended_by or _NOT_LOGGED) if cycle.ended else "not ended",
    "Steps": lambda cycle: count(cycle.steps),
    "Tool calls": lambda cycle: count(cycle.tool_calls),
    "Tokens in": lambda cycle: count(cycle.input_tokens),
    "Tokens out": lambda cycle: count(cycle.output_tokens),
    "Tokens/s": lambda cycle: decimal(cycle.tokens_per_second, 1),
    "Seconds": lambda cycle: decimal(cycle.seconds, 1),
    "Memory ops": lambda cycle: count(sum(cycle.memory_ops.values())),
    "Keys": lambda cycle: count(cycle.memory_keys),
    "Chars": lambda cycle: count(len(cycle.reflection)) if cycle.reflection is not None else NOTHING,
    "Similarity (to cycle)": lambda cycle: (
        decimal(cycle.similarity) + (f" ({cycle.similar_to})" if cycle.similar_to is not None else "")
    ),
    "Advisory": lambda cycle: cycle.advisory or NOTHING,
    "Errors": lambda cycle: count(cycle.errors),
    "Reflection": lambda cycle: Cell(first_words(cycle.reflection or ""), "opening"),
}


def _cycles(summary: RunSummary, share: Share) -> Section:
    """Return one row for each cycle; if there are too many, the first and the last."""
    cycles = summary.cycles
    if not cycles:
        return Section("Cycles", "No cycle was begun.")
    caption = (
        "What happened in each cycle. Tokens/s: output, in the time of the model. Chars: of the reflection. "
        f"{NOTHING}: not logged, or nothing to compare with."
    )
    if len(cycles) > share.rows:
        half = share.rows // 2
        caption += f" The first {half:,} and the last {half:,} cycles; {len(cycles) - 2 * half:,} are left out."
        cycles = (*cycles[:half], *cycles[-half:])
    rows = [[column(cycle) for column in _COLUMNS.values()] for cycle in cycles]
    return Section("Cycles", table=Table(caption, [*_COLUMNS], rows, words=(1, 12, 14)))


def _tokens(run: ReportedRun) -> Iterator[Section]:
    logged = run.summary.total(lambda cycle: cycle.input_tokens) is not None
    note = "" if logged or not run.summary.cycles else "Tokens were not logged."
    pictures = (*run.drawn("tokens"), *run.drawn("time"))
    if note or pictures:
        yield Section("Tokens and time", note, "note", pictures)


def _tools(run: ReportedRun) -> Section:
    tools = run.summary.tools
    if not tools:
        return Section("Tools", "No tool was called.")
    rows = [
        (name or "(no name)", count(use.calls), count(use.errors), decimal(use.seconds, 2))
        for name, use in [*tools.items()][:_ERRORS]
    ]
    cut = len(tools) - len(rows)
    caption = "Calls of each tool. An error is an answer that begins as the tools' own errors do." + (
        f" The {_ERRORS} that were called most; {cut:,} more names were called." if cut else ""
    )
    table = Table(caption, ("Tool", "Calls", "Errors", "Seconds"), rows)
    return Section("Tools", pictures=run.drawn("tools"), table=table)


def _memory(run: ReportedRun) -> Section:
    cycles = run.summary.cycles
    totals = {
        name: sum(cycle.memory_ops[name] for cycle in cycles) for name in (cycles[0].memory_ops if cycles else ())
    }
    if not any(totals.values()):
        return Section("Memory", "The memory was not used.")
    pairs: list[tuple[str, Value]] = [(name, count(total)) for name, total in totals.items()]
    pairs.append(("characters written", count(sum(cycle.memory_write_chars for cycle in cycles))))
    pairs.append(("keys at the end", count(cycles[-1].memory_keys)))
    return Section("Memory", pictures=run.drawn("memory"), facts=pairs)


def _likeness(run: ReportedRun) -> Section:
    found, heading = run.likeness, "Similarity of the reflections"
    if found.error:
        text = f"The embedder {found.embedder} failed, so the reflections were not compared: {found.error[:_MESSAGE]}"
        return Section(heading, text, "warn")
    if len(found.cycles) < 2:
        why = "nothing was to compare them with" if found.embedder else "no embedder was asked to"
        return Section(heading, f"Reflections: {found.among}; {why}.")
    note = f"The cosine of the embeddings by {found.embedder}, each reflection with each."
    if cut := found.among - len(found.cycles):
        note += f" {len(found.cycles)} of {found.among:,} reflections, evenly spread; {cut:,} are left out."
    rows = [(f"{one} and {other}", decimal(score)) for score, one, other in found.pairs[:_PAIRS]]
    pairs = Table("The reflections that are most alike.", ("Cycles", "Similarity"), rows)
    return Section(heading, note, "note", run.drawn("similarity"), pairs)


def _ratings(run: ReportedRun) -> Iterator[Section]:
    """Yield the ratings by evaluator, and how far they agree; nothing where the run was not rated."""
    if not run.ratings:
        return
    found = agreement(run.ratings)
    head = ("Evaluator", "Ratings", "Mean", "Standard deviation", "Lowest", "Highest", "Not readable")
    rows = [_evaluator(each) for each in found.evaluators]
    caption = f"Levels from 1 to {len(PEI_SCALE.level_names)}, by evaluator."
    notes = [
        f"{what}: {pairs.exact:.0%} of {pairs.pairs:,} pairs are the same level; they lie {pairs.mean_difference:.2f} "
        "levels apart on average."
        for what, pairs in (
            ("Repeats of one evaluator", found.same_evaluator),
            ("Different evaluators", found.evaluators_apart),
        )
        if pairs is not None
    ]
    yield Section("PEI ratings", pictures=run.drawn("pei"), table=Table(caption, head, rows), notes=notes)


def _evaluator(ratings: EvaluatorRatings) -> Sequence[str]:
    figures = (decimal(ratings.mean), decimal(ratings.stdev), count(ratings.min), count(ratings.max))
    return ratings.evaluator_model, count(ratings.ratings), *figures, count(ratings.missing)


def _reflections(summary: RunSummary, share: Share) -> Section:
    """Return the reflection of each cycle, folded."""
    cycles = [cycle for cycle in summary.cycles if cycle.reflection is not None]
    if not any(cycle.reflection for cycle in cycles):
        return Section("Reflections", "There are none.")
    most = _longest([len(cycle.reflection or "") for cycle in cycles], share.chars)
    return Section("Reflections", folds=[_reflection(cycle, most) for cycle in cycles])


def _reflection(cycle: CycleSummary, most: int) -> Fold:
    text = cycle.reflection or ""
    head = f"Cycle {cycle.number}: {len(text):,} characters"
    if cycle.advisory and cycle.similar_to is not None:
        head += f", {cycle.advisory} similarity to cycle {cycle.similar_to}"
    note = f"{len(text) - most:,} more characters are in the log." if len(text) > most else ""
    return Fold(head, text[:most] or "(empty)", note, first_words(text, 90) if text.strip() else "")


def _longest(lengths: Sequence[int], budget: int) -> int:
    """Return the maximum length so that all texts fit into the `room`: only the long ones are cut."""
    left, rest = budget, len(lengths)
    for length in sorted(lengths):
        if length * rest > left:
            return left // rest
        left, rest = left - length, rest - 1
    return max(lengths, default=0)


def _time(timestamp: str) -> str:
    """Format a timestamp for reading, in UTC as it is logged."""
    found = moment(timestamp)
    return f"{found:%Y-%m-%d %H:%M:%S}" + (" UTC" if timestamp.endswith("Z") else "") if found else timestamp
