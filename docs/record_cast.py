"""Record a program in a terminal as an asciinema cast, and draw the cast as an animated SVG.

    python docs/record_cast.py docs/images/demo            # records `toolcast demo` into demo.cast and demo.svg
    python docs/record_cast.py docs/images/demo --draw     # draws demo.svg again from demo.cast

The terminal has a fixed size, pauses are shortened, and what arrives within one frame is one, so that the pictures are
small: another run on another machine is as large, but for the times that the program prints. The SVG has the colours of
the viewer's light or dark mode, and stands still for viewers who want no motion. Needs pexpect and pyte.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pexpect
import pyte

sys.path.insert(0, str(Path(__file__).parent))
from terminal_picture import CELL, LINE, MARGIN, PictureScreen, line_elements, style

ROOT = Path(__file__).parents[1]
COLUMNS, ROWS = 80, 34
FRAME = 0.1
"""Seconds between two pictures, at least."""
LONGEST_PAUSE = 0.8
"""Seconds without output; a longer pause is shortened to these."""
LAST = 5.0
"""Seconds that the last picture stands."""
LARGEST = 300_000
"""Bytes that the SVG may have."""
TIMEOUT = 600.0


class Output(NamedTuple):
    """What a program wrote, and when: seconds since its start."""

    at: float
    text: str


def record(command: Sequence[str], shown: str, *, columns: int = COLUMNS, rows: int = ROWS) -> list[Output]:
    """Run the command in a terminal, and return its output, after a prompt with the command as `shown`.

    Raises:
        RuntimeError: The command failed.
    """
    left_out = ("NO_COLOR", "COLUMNS", "LINES")
    env = {name: value for name, value in os.environ.items() if name not in left_out} | {"TERM": "xterm-256color"}
    child: pexpect.spawn[str] = pexpect.spawn(
        command[0], [*command[1:]], env=env, dimensions=(rows, columns), encoding="utf-8", timeout=TIMEOUT, cwd=ROOT
    )
    begin = time.monotonic()
    outputs = [Output(0.0, f"$ {shown}\r\n")]
    while True:
        try:
            text = child.read_nonblocking(65536, timeout=TIMEOUT)
        except (pexpect.EOF, OSError):
            break
        outputs.append(Output(time.monotonic() - begin, text))
    child.close()
    if child.exitstatus:
        raise RuntimeError(f"{shown} failed with exit code {child.exitstatus}")
    return outputs


def with_short_pauses(outputs: Sequence[Output]) -> Iterator[Output]:
    """Yield the outputs, with pauses shortened; if any is, the first line has a comment that says so."""
    pauses = [after.at - before.at for before, after in pairwise(outputs)]
    if max(pauses, default=0.0) > LONGEST_PAUSE:
        prompt = outputs[0].text.removesuffix("\r\n")
        outputs = [Output(outputs[0].at, f"{prompt}  # pauses are shortened\r\n"), *outputs[1:]]
    before = now = 0.0
    for output in outputs:
        now += min(output.at - before, LONGEST_PAUSE)
        before = output.at
        yield Output(round(now, 3), output.text)


def write_cast(outputs: Iterable[Output], path: Path, *, columns: int = COLUMNS, rows: int = ROWS) -> None:
    """Write an asciinema cast, version 2."""
    header = {"version": 2, "width": columns, "height": rows, "env": {"TERM": "xterm-256color"}}
    lines = [header, *([output.at, "o", output.text] for output in outputs)]
    path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), encoding="utf-8")


def read_cast(path: Path) -> tuple[int, int, list[Output]]:
    """Return the columns, the rows and the outputs of an asciinema cast."""
    header, *events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return header["width"], header["height"], [Output(at, text) for at, kind, text in events if kind == "o"]


def animation(outputs: Sequence[Output], title: str, *, columns: int = COLUMNS, rows: int = ROWS) -> str:
    """Return the outputs as an animated SVG document.

    All frames stand below each other, and a window shows one after the other. A row that several frames have is drawn
    once.
    """
    screen = PictureScreen(columns, rows)
    stream = pyte.Stream(screen)
    ids: dict[str, int] = {}
    frames: list[tuple[float, tuple[tuple[int, int], ...]]] = []
    for number, output in enumerate(outputs):
        stream.feed(output.text)
        following = outputs[number + 1].at if number + 1 < len(outputs) else float("inf")
        if following - (frames[-1][0] if frames else 0.0) < FRAME:
            continue  # the next output belongs to the same frame
        drawn = [(y, "".join(line_elements(screen, y, 0))) for y in range(rows)]
        rows_of_frame = tuple([(y, ids.setdefault(line, len(ids))) for y, line in drawn if line])
        if not frames or frames[-1][1] != rows_of_frame:
            frames.append((output.at, rows_of_frame))
    width, height = columns * CELL + 2 * MARGIN, rows * LINE + 2 * MARGIN
    duration = frames[-1][0] + LAST
    steps = [f"{100 * at / duration:.3f}%{{transform:translateY({-n * height}px)}}" for n, (at, _) in enumerate(frames)]
    size = f'width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}"'
    still = f"transform:translateY({-(len(frames) - 1) * height}px)"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{style(None)}  @keyframes film {{ {' '.join(steps)} }}",
            f"  .film {{ animation: film {duration:.2f}s steps(1, end) infinite }}",
            f"  @media (prefers-reduced-motion: reduce) {{ .film {{ animation: none; {still} }} }}",
            "</style>",
            "<defs>",
            *(f'<g id="r{number}">{line}</g>' for line, number in ids.items()),
            "</defs>",
            f'<rect class="frame" x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="8"/>',
            f'<svg x="0" y="0" width="{width:.0f}" height="{height}">',
            '<g class="film">',
            *(
                f'<g transform="translate(0 {n * height})">'
                + "".join(f'<use href="#r{id}" y="{y * LINE}"/>' for y, id in shown)
                + "</g>"
                for n, (_, shown) in enumerate(frames)
            ),
            "</g>\n</svg>\n</svg>\n",
        )
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Record or draw what the command line describes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("target", type=Path, help="the files to write, without .cast and .svg")
    parser.add_argument("--draw", action="store_true", help="draw the cast that is there")
    parser.add_argument(
        "--title",
        default="The demo of toolcast: calls of a small model, with their code",
    )
    parser.add_argument("--command", nargs=argparse.REMAINDER, default=["toolcast", "demo"], help="the last option")
    options = parser.parse_args(arguments)
    cast, drawing = options.target.with_suffix(".cast"), options.target.with_suffix(".svg")
    if not options.draw:
        programs = {"python": [sys.executable], "toolcast": [sys.executable, "-m", "toolcast"]}
        first, *rest = options.command
        outputs = record([*programs.get(first, [first]), *rest], " ".join(options.command))
        write_cast(with_short_pauses(outputs), cast)
    columns, rows, outputs = read_cast(cast)
    svg = animation(outputs, options.title, columns=columns, rows=rows)
    if len(svg.encode()) > LARGEST:
        raise SystemExit(f"{drawing} would have {len(svg.encode()):,} bytes, more than {LARGEST:,}")
    drawing.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
