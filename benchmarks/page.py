"""The figures as tables: for the terminal, and between two marks of docs/explanation/performance.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "performance.md"
MARKS = {
    "goals": ("<!-- goals: begin, written by `nox -s goals` -->", "<!-- goals: end -->"),
    "bench": ("<!-- figures: begin, written by `nox -s bench` -->", "<!-- figures: end -->"),
    "bench-peers": ("<!-- peers: begin, written by `nox -s bench-peers` -->", "<!-- peers: end -->"),
}
"""Between what each command writes."""


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose columns are as wide as they must be; all but the first are flush right."""
    cells = [list(head), *(list(line) for line in lines)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    ruler = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    padded = [
        [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        for line in (cells[0], ruler, *cells[1:])
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


def summary(values: Sequence[float], shown: Callable[[float], str]) -> str:
    """The least and the median of the rounds, and by how much more the worst took than the best."""
    low, middle, high = min(values), median(values), max(values)
    spread = f", +{high / low - 1:.0%}" if low > 0 else ""
    return f"{shown(low)} / {shown(middle)}{spread}"


def circumstances(rounds: int) -> str:
    """On what, and how, the figures were taken."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("toolcast", "pydantic", "jiter", "httpx"))
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return (
        f"Taken on {datetime.now(UTC):%Y-%m-%d} with {python}, {packages}; {platform.system()} on {processor()}, "
        f"{os.cpu_count()} cores. CPU time of the process, up to {rounds} rounds, rows in turn: the "
        "least / the median, and how much more the worst took than the best. The garbage collector runs "
        "with Python's thresholds, after a full collection before each measurement."
    )


def processor() -> str:
    """What this machine calls its processor."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()


def write(figures: str, command: str = "bench") -> None:
    """Put the figures between the command's marks on the page."""
    PAGE.write_text(between(PAGE.read_text(encoding="utf-8"), figures, *MARKS[command]), encoding="utf-8")


def between(page: str, figures: str, begin: str, end: str) -> str:
    """The page with the figures between the two marks, which must be there."""
    before, begun, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not (begun and ended):
        raise ValueError(f"the page has no {begin} … {end}")
    return f"{before}{begin}\n\n{figures}\n\n{end}{after}"
