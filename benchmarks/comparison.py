"""The figures of all peers as tables: pure functions of what `bench_peers.py` collected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from measure import WINDOWS
from page import summary, table

BASE = "toolcast, sync"
"""The row that all ratios are taken to."""
LIST = "40 KB list"
AGENT = "toolcast, async"
FOUR = 4

Results = dict[str, Any]
Cell = dict[str, Any]


def report(results: Results) -> Iterator[str]:
    """The parts of the figures."""
    yield circumstances(results)
    for size in sorted({cell["size"] for cell in results["cells"]}):
        yield (
            f"**Whole document, {size} characters a piece** (CPU time: least / median of three rounds, and how much "
            f"more the worst took than the best; in brackets: times `{BASE}`; *once*: one round)"
        )
        yield totals(results, size)
    if any("curve" in cell for cell in results["cells"]):
        yield (
            "**The same at each place**, 4 characters a piece (us a piece around 25 %, around 50 % and before 100 %; "
            "growth: last / first)"
        )
        yield places(results)
    yield (
        "**Import and memory** (import: ms of wall clock in a fresh interpreter until there is something to call; "
        "snapshots: what the 40 KB list is read as; peak: MB by which the process grew at most while it read them, "
        "kept: MB by which it grew when all of them were kept)"
    )
    yield resources(results)
    if results["calls"]:
        yield (
            "**One call** (us of CPU of the client, best of three rounds; in brackets: times toolcast over httpx, sync "
            "or async like the row; requests a second: what one core can do)"
        )
        yield calls(results)
    if results.get("agents"):
        yield (
            "**A round of an agent with one tool** (us of CPU, with a model that answers from memory: least / "
            f"median of three rounds, and how much more the worst took than the best; in brackets: times `{AGENT}`)"
        )
        yield agents(results)
    if results.get("starts"):
        yield (
            "**Start-up** (ms of CPU of a fresh process above an empty one, least of five, in turn; in brackets: times "
            "`import pydantic` in the same environment and run)"
        )
        yield starts(results)
    yield from problems(results)


def circumstances(results: Results) -> str:
    """On what, and how, the figures were taken."""
    taken = results["taken"]
    packages = ", ".join(f"{name} {number}" for name, number in versions(results))
    return (
        f"Taken on {taken['date']} with {taken['python']}, {packages}; {taken['system']} on {taken['processor']}, "
        f"{taken['cores']} cores. CPU time of one process at a time, pinned to one core, after a warm-up; the best of "
        "three rounds."
    )


def versions(results: Results) -> list[tuple[str, str]]:
    """Each package with its version; of the OpenAI SDK, which is below many, also the older ones that are in use."""
    found: dict[str, str] = {}
    for name, packages in sorted(results["versions"].items(), key=lambda item: item[0] not in ("toolcast", "openai")):
        for package, number in packages.items():
            known = found.setdefault(package, number)
            if known != number:
                found[f"{package} below {name}"] = number
    return list(found.items())


def totals(results: Results, size: int) -> str:
    """Every way and document: the time for all of it, its ratio to toolcast's, the spread of the rounds."""
    found = {(cell["way"], cell["document"]): cell for cell in results["cells"] if cell["size"] == size}
    documents = list(dict.fromkeys(document for _, document in found))
    lines = []
    for way in ways(results, size):
        cells = [total(found.get((way, name)), found.get((BASE, name))) for name in documents]
        lines.append([f"**{way}**" if way == BASE else way, *cells])
    return table(["", *documents], lines)


def ways(results: Results, size: int) -> list[str]:
    """The rows, fastest first: by the 40 KB list where it was read, otherwise by the longest that was."""
    found: dict[str, list[Cell]] = {}
    for cell in results["cells"]:
        if cell["size"] == size:
            found.setdefault(cell["way"], []).append(cell)

    def cost(way: str) -> float:
        cells = sorted(found[way], key=lambda cell: (cell["document"] == LIST, cell.get("pieces", 0)))
        return next((least(cell) / cell["pieces"] for cell in reversed(cells) if cell.get("seconds")), float("inf"))

    return sorted(found, key=cost)


def least(cell: Cell) -> float:
    """Seconds for the whole document, in the best round."""
    return float(min(cell["seconds"]))


def total(cell: Cell | None, base: Cell | None) -> str:
    """One cell: the time, the ratio, the spread; or why there is none."""
    if cell is None:
        return "–"
    if "error" in cell:
        return "failed"
    if "cut" in cell:
        return f"> {cell['cut']['seconds']:.0f} s at {cell['cut']['share']:.0%}"
    notes = [times(least(cell) / least(base))] if base and base.get("seconds") else []
    once = len(cell["seconds"]) == 1
    notes += ["once"] if once else []
    wrong = "" if cell["right"] else "wrong object: "
    seen = duration(least(cell)) if once else summary(cell["seconds"], duration)
    return f"{wrong}{seen}" + (f" ({', '.join(notes)})" if notes else "")


def times(ratio: float) -> str:
    """A ratio with two or three digits."""
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.1f}x" if ratio >= 0.95 else f"{ratio:.2f}x"


def duration(seconds: float) -> str:
    """Seconds, or ms where that reads better, with three digits."""
    value, unit = (seconds, "s") if seconds >= 1 else (seconds * 1e3, "ms")
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}" if value >= 0.1 else f"{value:.3f} {unit}"


def places(results: Results) -> str:
    """Every way and document with a curve: what one piece costs, early and late."""
    found = {
        (cell["way"], cell["document"]): cell for cell in results["cells"] if "curve" in cell and cell["size"] == FOUR
    }
    documents = list(dict.fromkeys(document for _, document in found))
    rows = [way for way in ways(results, FOUR) if any(name == way for name, _ in found)]
    lines = [[way, *(place(found.get((way, name))) for name in documents)] for way in rows]
    return table(["", *documents], lines)


def place(cell: Cell | None) -> str:
    """One cell of that table."""
    if cell is None:
        return "–"
    costs = per_piece(cell)
    shown = " / ".join("–" if cost is None else f"{cost * 1e6:,.{2 if cost < 1e-5 else 0}f}" for cost in costs)
    first, last = costs[0], costs[-1]
    return f"{shown} ({last / first:.2f})" if first and last else shown


def per_piece(cell: Cell) -> list[float | None]:
    """Seconds for one piece at each window; None where the run was stopped before.

    The last hundredth also has the end of the call in it, so the last window stops before it.
    """
    curve, hundredth = cell["curve"], cell["pieces"] / 100
    costs: list[float | None] = []
    for start, end in WINDOWS:
        first, last = round(start * 100), min(round(end * 100), 99)
        known = last <= len(curve)
        costs.append((curve[last - 1] - curve[first - 1]) / (last - first) / hundredth if known else None)
    return costs


def resources(results: Results) -> str:
    """Import time of each peer, and the memory of each of its ways."""
    kept = {found["way"]: found["bytes"] for found in results["kept"]}
    cells = {cell["way"]: cell for cell in results["cells"] if (cell["document"], cell["size"]) == (LIST, FOUR)}
    peers = {cell["way"]: cell["peer"] for cell in results["cells"]}
    lines = []
    for way in ways(results, FOUR) if cells else []:
        cell = cells.get(way, {})
        if not cell.get("seconds") or way.startswith("limit"):
            continue
        snapshots = f"{cell['snapshots']:,} {cell['gives']}"
        peak = f"{cell['peak'] / 1e6:,.0f}" if cell["peak"] else "–"
        memory = f"{kept[way] / 1e6:,.0f}" if way in kept else "–"
        lines.append([way, imported(results, peers[way]), snapshots, peak, memory])
    shown = {peers[line[0]] for line in lines}
    lines += [[name, imported(results, name), "–", "–", "–"] for name in results["imports"] if name not in shown]
    return table(["", "import, ms", "snapshots", "peak, MB", "kept, MB"], lines)


def imported(results: Results, name: str) -> str:
    """Milliseconds."""
    return f"{results['imports'][name] * 1e3:,.0f}" if name in results["imports"] else "–"


def calls(results: Results) -> str:
    """Every client: one call, one short stream, a hundred calls at once."""
    found = {row["client"]: row for row in results["calls"] if "error" not in row}

    def cost(row: dict[str, Any], key: str) -> str:
        if not row.get(key):
            return "–"
        base = found.get("toolcast, sync" if row["client"].endswith(", sync") else "toolcast, async", {}).get(key)
        ratio = f" ({times(min(row[key]) / min(base))})" if base else ""
        return f"{min(row[key]):,.0f}{ratio}"

    lines = []
    for name, row in sorted(found.items(), key=lambda item: min(item[1]["call"])):
        rate = f"{1e6 / min(row['at_once']):,.0f}" if row.get("at_once") else "–"
        shown = name if row["right"] else f"{name}: wrong object"
        lines.append([shown, cost(row, "call"), cost(row, "stream"), cost(row, "at_once"), rate])
    return table(["", "call", "stream", "call, 100 at once", "requests a second"], lines)


def agents(results: Results) -> str:
    """Every library with an agent: one round."""
    found = {row["agent"]: row["round"] for row in results["agents"] if "error" not in row}
    wrong = {row["agent"] for row in results["agents"] if not row.get("right")}
    lines = []
    for name, costs in sorted(found.items(), key=lambda item: min(item[1])):
        ratio = f" ({times(min(costs) / min(found[AGENT]))})" if AGENT in found else ""
        shown = f"{name}: wrong result" if name in wrong else name
        lines.append([shown, f"{summary(costs, '{:,.0f}'.format)}{ratio}"])
    return table(["", "round"], lines)


def starts(results: Results) -> str:
    """Every library: until there is something to call, and until its command has printed its help."""
    lines = []
    for name, found in sorted(results["starts"].items(), key=lambda item: item[1]["ready"]):
        ready, pydantic = found["ready"], found["pydantic"]
        shown = [
            f"`{found['command']}`: {seconds * 1e3:,.0f} ({times(seconds / pydantic)})" for seconds in found["started"]
        ]
        lines.append([name, f"{ready * 1e3:,.0f} ({times(ready / pydantic)})", *(shown or ["–"])])
    return table(["", "ready to be called", "command"], lines)


def _start(seconds: float, pydantic: float) -> str:
    return f"{seconds * 1e3:,.0f} ({times(seconds / pydantic)})"


def problems(results: Results) -> Iterator[str]:
    """What failed, and with what."""
    failed = [
        *((f"{cell['way']}, {cell['document']}", cell["error"]) for cell in results["cells"] if "error" in cell),
        *((row["client"], row["error"]) for row in results["calls"] if "error" in row),
        *((row["agent"], row["error"]) for row in results.get("agents", ()) if "error" in row),
        *results["failures"].items(),
    ]
    if failed:
        yield "**Failed**"
        yield "\n".join(f"* {where}: `{' '.join(error.split())}`" for where, error in failed)
