"""The images of docs/explanation/performance.md, from results/peers.json; `nox -s bench-peers` runs it at its end.

The same figures make the same bytes: no date in the file, ids from a fixed salt. The background is transparent and
the ink grey, so that the images can be read on a light page and on a dark one.
"""

# /// script
# dependencies = ["matplotlib"]
# ///

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "peers.json"
IMAGES = HERE.parent / "docs" / "images"
LISTS = ("album", "4 KB list", "40 KB list", "400 KB list", "1 MB list")
"""The documents of the second image."""

INK = "#808080"
OWN = {"toolcast, sync": "#e4572e", "limit: split SSE, decode payloads": INK}
STYLE = {
    "svg.hashsalt": "toolcast",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.25,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.transparent": True,
}
COLOURS = ("#3b8ea5", "#c0883a", "#7a6fb0", "#4f9d5d", "#c65d92", "#5b83c9", "#8d9b2f", "#a0705a", "#39a39a", "#b36ad0")
"""Middle tones, distinct from each other, and from white and black."""


def main() -> None:
    """Both images."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    IMAGES.mkdir(parents=True, exist_ok=True)
    mpl.rcParams.update(STYLE)
    draw(results, by_place, "chunk-cost.svg", "place in the document, %", "CPU time of one piece, us")
    draw(results, by_size, "total-time.svg", "size of the document, bytes", "CPU time of the whole document, s")


def draw(results: dict[str, Any], lines: Any, name: str, across: str, up: str) -> None:
    """One image: a line for each way, on logarithmic axes."""
    figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
    ways = shown(results)
    for (way, colour), marker in zip(ways.items(), "osD^vPX<>*hd" * 2, strict=False):
        for xs, ys in lines(results, way, axes):
            axes.plot(xs, ys, label=way.replace("`", ""), color=colour, marker=marker, markersize=4, markevery=0.1)
    axes.set(xlabel=across, ylabel=up, yscale="log")
    handles, labels = axes.get_legend_handles_labels()
    highest = sorted(zip(handles, labels, strict=True), key=lambda pair: -last(pair[0]))
    axes.legend(*zip(*highest, strict=True), loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=9)
    figure.savefig(IMAGES / name, metadata={"Date": None})
    plt.close(figure)


def shown(results: dict[str, Any]) -> dict[str, str]:
    """The ways in the images and their colours: toolcast, the limit, and every peer's."""
    ways = dict.fromkeys(cell["way"] for cell in results["cells"] if cell["peer"] != "toolcast" or cell["way"] in OWN)
    others = [way for way in ways if way not in OWN]
    return OWN | {way: COLOURS[number % len(COLOURS)] for number, way in enumerate(others)}


def by_place(results: dict[str, Any], way: str, axes: Axes) -> Iterator[tuple[list[float], list[float]]]:
    """What one piece of the 40 KB list costs, in each twentieth of it."""
    for cell in found(results, way):
        if cell["document"] == "40 KB list" and "curve" in cell:
            edges = [0.0, *cell["curve"]][:100:5]  # without the last, which has the end of the call in it
            step = cell["pieces"] / 20
            costs = [(end - start) / step * 1e6 for start, end in pairwise(edges)]
            yield [5 * number + 2.5 for number in range(len(costs))], costs


def by_size(results: dict[str, Any], way: str, axes: Axes) -> Iterator[tuple[list[float], list[float]]]:
    """Seconds for the album and for each list."""
    axes.set_xscale("log")
    cells = [cell for cell in found(results, way) if cell["document"] in LISTS and cell["seconds"]]
    cells.sort(key=lambda cell: cell["pieces"])
    if cells:
        yield [4.0 * cell["pieces"] for cell in cells], [min(cell["seconds"]) for cell in cells]


def found(results: dict[str, Any], way: str) -> list[dict[str, Any]]:
    """The cells of a way in small pieces."""
    return [cell for cell in results["cells"] if (cell["way"], cell["size"]) == (way, 4) and "error" not in cell]


def last(line: Any) -> float:
    """Where a line ends."""
    return float(line.get_ydata()[-1])


if __name__ == "__main__":
    main()
