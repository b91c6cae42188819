"""The streaming benchmark: `python benchmarks/bench.py`, or `nox -s bench`.

Reads documents of several sizes in small pieces, through limits that no library can beat and through toolcast, and
prints what each cost. Ratios taken in one run are the message; times differ from machine to machine. With `--write` the
figures are also written into docs/explanation/performance.md. Takes about ten minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import calls
import idle_sessions
import turns
from documents import (
    Document,
    LooseOrders,
    album,
    chat_events,
    essay,
    fields,
    levels,
    markdown,
    minutes,
    models_by_name,
    numbers,
    orders,
    tiny,
)
from measure import Figures, Row, compare, held, ready_times
from page import circumstances, summary, table, write
from rows import ASYNC, LIMIT, ONCE, ROWS, SYNC, keep, stream
from wires import by_wire

import experiments

LIST = "40 KB list"
MOST_ROUNDS = 7
# Each document with its rounds and rows: long ones need fewer, and the longest only the rows that are compared.
PLAN: tuple[tuple[Document, int, tuple[Row, ...]], ...] = (
    (album(), MOST_ROUNDS, ROWS),
    (orders(20, "4 KB list"), MOST_ROUNDS, ROWS),
    (orders(200, LIST), MOST_ROUNDS, ROWS),
    (orders(200, "40 KB, optional", LooseOrders), 5, ROWS),
    (essay(), 5, ROWS),
    (orders(2_000, "400 KB list"), 3, ROWS),
    (orders(5_000, "1 MB list"), 3, (LIMIT, SYNC)),
)
SHAPES: tuple[Document, ...] = (
    tiny(),
    fields(200),
    levels(30),
    levels(180),
    numbers(5_000),
    models_by_name(300),
    minutes(),
    markdown(100_000, "Markdown, 100 KB"),
)
"""Documents of other shapes, for the rows that are compared: limits and the public streams."""

LONGEST: tuple[Document, ...] = (markdown(1_000_000, "Markdown, 1 MB"), numbers(500_000))
WHOLE: tuple[Document, ...] = (
    *(tiny(), album(), orders(200, LIST), fields(200), levels(180), numbers(5_000), models_by_name(300), minutes()),
    markdown(1_000_000, "Markdown, 1 MB"),
)
COMPARED = (LIMIT, SYNC, ASYNC)
SIZES = (1, 4, 16)
MODULES = {
    "`import pydantic`": "import pydantic; pydantic.BaseModel",
    "`import pydantic` and one model": "import pydantic\nclass Album(pydantic.BaseModel): title: str",
    "`import httpx`": "import httpx",
    "`import toolcast`": "import toolcast",
    "an orchestrator with `OpenAI(...)`, ready to be called": (
        "import pydantic, toolcast\n"
        "class Album(pydantic.BaseModel): title: str\n"
        "llm = toolcast.OpenAI('gpt-4o-mini', api_key='none')\n"
        "toolcast.ToolOrchestratingLLM(Album, 'An album about {topic}', llm)"
    ),
}

Results = dict[Document, dict[Row, Figures]]


def main() -> None:
    """Measure, print, write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="write the figures into docs/explanation/performance.md")
    wanted = options.parse_args()
    parts = []
    for part in report():
        print(part, end="\n\n", flush=True)
        parts.append(part)
    if wanted.write:
        write("\n\n".join(parts))


def report() -> Iterator[str]:
    """The parts of the figures, as they are ready."""
    four = _measured(4)
    yield circumstances(MOST_ROUNDS)
    yield "**Whole document, 4 characters a piece** (ms; in brackets: times the SSE limit)"
    yield totals(four)
    yield "**The same at each place** (us a piece around 25 %, around 50 % and before 100 %; growth: last / first)"
    yield places(four)
    yield "**The 40 KB list with padding in each event**, 4 characters a piece (ms; in brackets: times the SSE limit)"
    yield padded()
    yield "**One event, by wire**: the 40 KB list, 4 characters an event, from bytes to toolcast's own events"
    yield by_wire(orders(200, LIST), MOST_ROUNDS)
    sixteen = _measured(16, longest=50_000)
    yield "**Whole document, 16 characters a piece** (ms; in brackets: times the SSE limit)"
    yield totals(sixteen)
    for size in SIZES:
        yield f"**Other shapes**, characters a piece: {size} (ms; in brackets: times the SSE limit)"
        yield shapes(size)
    yield "**Arguments in one event** (ms; in brackets: times one validation of the same text)"
    yield in_one_event()
    yield "**A turn of an engine**: what it adds to the same calls of the model and of the tool, made directly"
    yield turns.report(MOST_ROUNDS)
    yield "**Memory** (`tracemalloc`, above what was there before; 4 characters a piece)"
    yield memory()
    yield idle_sessions.report()
    yield "**An experiment**, beside its model; and its log"
    yield experiments.report()
    yield "**Import** (ms of CPU of a fresh process, least of 15, in turn; in brackets: times `import pydantic`)"
    yield imports()
    yield from calls.report()


def _measured(size: int, longest: int = 2_000_000) -> Results:
    plan = [(document, rounds, rows) for document, rounds, rows in PLAN if len(document.text) <= longest]
    return {document: compare(rows, document, size, rounds) for document, rounds, rows in plan}


def totals(results: Results) -> str:
    """Every row and document: the time for all of it, and its ratio to the SSE limit."""
    lines = [[row.name, *(_total(found, row) for found in results.values())] for row in ROWS]
    lines.append(["async in sync", *(_ratio(found, ASYNC, SYNC) for found in results.values())])
    return table(["", *(document.name for document in results)], lines)


def _total(found: dict[Row, Figures], row: Row) -> str:
    if row not in found:
        return ""
    return f"{summary(found[row].whole, _ms)} ({found[row].least / found[LIMIT].least:.1f})"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.{3 if seconds < 1e-4 else 2 if seconds < 0.01 else 1}f}"


def _ratio(found: dict[Row, Figures], one: Row, other: Row) -> str:
    return f"{found[one].least / found[other].least:.2f}" if one in found and other in found else ""


def places(results: Results) -> str:
    """Every row and long document: what one piece costs, early and late."""
    long = {document: found for document, found in results.items() if len(document.text) > 30_000}
    lines = [[row.name, *(_places(found.get(row)) for found in long.values())] for row in ROWS]
    return table(["", *(document.name for document in long)], lines)


def _places(figures: Figures | None) -> str:
    if figures is None:
        return ""
    costs = " / ".join(f"{seconds * 1e6:.2f}" for seconds in figures.per_piece)
    return f"{costs} ({figures.growth:.2f})"


def padded() -> str:
    """The rows that start from the wire, where no two events are alike."""
    found = compare((LIMIT, SYNC, ASYNC), orders(200, LIST), 4, 5, padded=True)
    return table(["", LIST], [[row.name, _total(found, row)] for row in found])


def shapes(size: int) -> str:
    """The public streams beside the limit, for documents of other shapes."""
    plan = [(document, 3) for document in SHAPES] + [(document, 3) for document in LONGEST if size > 1]
    found = {document: compare(COMPARED, document, size, rounds) for document, rounds in plan}
    lines = [[document.name, *(_total(costs, row) for row in COMPARED)] for document, costs in found.items()]
    return table(["", *(row.name for row in COMPARED)], lines)


def in_one_event() -> str:
    """The public stream of a document that arrives whole, beside one validation of it."""
    lines = []
    for document in WHOLE:
        found = compare((ONCE, SYNC), document, len(document.text), 5)
        once, whole = found[ONCE].least, found[SYNC].least
        seen = f"{summary(found[SYNC].whole, _ms)} ({whole / once:.1f})"
        lines.append([document.name, summary(found[ONCE].whole, _ms), seen])
    return table(["", ONCE.name, SYNC.name], lines)


def memory() -> str:
    """What the public stream needs, beside the size of the text and of the object that it makes."""
    lines = []
    for document in (orders(200, LIST), essay()):
        events = chat_events(document.pieces(4), document.type.__name__)
        stream(document, events)()
        peak, kept = held(stream(document, events))
        lines.append([document.name, _kb(len(document.text)), _kb(kept), _kb(peak)])
    document = orders(200, f"{LIST}, every snapshot kept")
    _, kept = held(keep(document, chat_events(document.pieces(4), document.type.__name__)))
    lines.append([document.name, _kb(len(document.text)), _kb(kept), ""])
    return table(["", "text, KB", "what is left, KB", "peak, KB"], lines)


def _kb(size: int) -> str:
    return f"{size / 1000:,.0f}"


def imports() -> str:
    """How long it takes until there is something to work with."""
    seconds = dict(zip(MODULES, ready_times(list(MODULES.values()), 15), strict=True))
    base = seconds["`import pydantic`"]
    return table(["", "ms"], [[name, f"{cost * 1e3:.0f} ({cost / base:.2f})"] for name, cost in seconds.items()])


if __name__ == "__main__":
    main()
