"""Draw `docs/images/map-*.svg`: what a terminal shows of `toolcast map` on 200 texts with the embedded model.

    python docs/map_picture.py [TEXTS]

The texts are those of examples/many_inputs.py. The command runs in a pseudo-terminal of 80 columns; after a third of
the rows Ctrl-C is pressed, and then the same command resumes. The pictures are the screens themselves, in SVG, with
the colours of the viewer's light or dark mode. Needs toolcast[local,cli], pexpect and pyte, and a few minutes.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pexpect
import pyte

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
COLUMNS, ROWS = 80, 12
CELL, LINE, MARGIN = 8.4, 19, 12
CTRL_C = "\x03"
COMMAND = ("toolcast", "map", "name, age int, city", "--input", "people.csv", "--output", "people.jsonl")
PROGRAM = "import sys; from toolcast.apps.cli import main; sys.exit(main())"
PATIENCE = 1800.0  # seconds: a busy machine takes minutes

STYLE = """\
  .bg { fill: #ffffff; stroke: #d0d7de } text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; \
fill: #1f2328; white-space: pre }
  .bold { font-weight: 700 } .italics { font-style: italic }
  .black { fill: #afb8c1 } .red { fill: #cf222e } .green { fill: #116329 } .brown { fill: #7d4e00 }
  .blue { fill: #0969da } .magenta { fill: #8250df } .cyan { fill: #1b7c83 } .white { fill: #6e7781 }
  @media (prefers-color-scheme: dark) {
    .bg { fill: #0d1117; stroke: #30363d } text { fill: #e6edf3 }
    .black { fill: #57606a } .red { fill: #ff7b72 } .green { fill: #3fb950 } .brown { fill: #d29922 }
    .blue { fill: #58a6ff } .magenta { fill: #bc8cff } .cyan { fill: #39c5cf } .white { fill: #b1bac4 }
  }"""


class Terminal:
    """A program in a pseudo-terminal, and its screen."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.Stream(self.screen)
        self._stream.feed(f"$ {shlex.join(words)}\r\n")
        foreign = ("OLLAMA", "TOOLCAST", "NO_COLOR")
        env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        env |= {"TERM": "xterm-256color", "PYTHONUTF8": "1"}
        self._child = pexpect.spawn(
            sys.executable,
            ["-c", PROGRAM, *words[1:]],
            cwd=folder,
            env=env,
            dimensions=(ROWS, COLUMNS),
            encoding="utf-8",
        )

    @property
    def text(self) -> str:
        """The text on the screen."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def press(self, key: str) -> None:
        """Press a key."""
        self._child.send(key)

    def until(self, reached: Callable[[str], object]) -> None:
        """Read what the program writes until `reached` is true of the text on the screen."""
        latest = time.monotonic() + PATIENCE
        while not reached(self.text):
            assert time.monotonic() < latest, f"nothing new came:\n{self.text}"
            assert self._read(), f"the program has ended:\n{self.text}"

    def ends(self) -> int:
        """Read to the end of the program, and return its exit code."""
        while self._read():
            pass
        self._child.close()
        return int(self._child.exitstatus or 0)

    def _read(self) -> bool:
        try:
            self._stream.feed(self._child.read_nonblocking(65536, timeout=PATIENCE))
        except pexpect.EOF:
            return False
        return True


def spans(screen: pyte.Screen) -> Iterator[list[tuple[int, str, str]]]:
    """Yield each line of the screen as texts with their columns and classes, without empty lines at the end."""
    last = max((y for y, line in enumerate(screen.display) if line.strip()), default=-1)
    for y in range(last + 1):
        row = screen.buffer[y]
        found = []
        cells = [(x, row[x]) for x in range(screen.columns)]
        for classes, group in groupby(cells, lambda cell: classes_of(cell[1])):
            part = list(group)
            text = "".join(cell.data for _, cell in part)
            if text.strip():
                indent = len(text) - len(text.lstrip())
                found.append((part[0][0] + indent, text.strip(), classes))
        yield found


def classes_of(cell: Any) -> str:
    """Return the classes of a cell: the name of its colour, and bold or italics."""
    colour = "" if cell.fg == "default" else re.sub("^bright", "", cell.fg)
    names = [colour if not re.fullmatch("[0-9a-f]{6}", colour) else nearest(colour)]
    names += [name for name in ("bold", "italics") if getattr(cell, name)]
    return " ".join(filter(None, names))


def nearest(colour: str) -> str:
    """Return the name for a colour of the 256-colour palette, by its hue."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (0, 2, 4))
    if max(red, green, blue) - min(red, green, blue) < 40:
        return "black" if red < 160 else "white"
    high = [name for name, value in (("r", red), ("g", green), ("b", blue)) if value > 0.7 * max(red, green, blue)]
    names = {"r": "red", "g": "green", "b": "blue", "rg": "brown", "rb": "magenta", "gb": "cyan", "rgb": "white"}
    return names["".join(high)]


def svg(screen: pyte.Screen, title: str) -> str:
    """Return the screen as an SVG document."""
    lines = list(spans(screen))
    width, height = COLUMNS * CELL + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    texts = [
        f'<text x="{MARGIN + x * CELL:.1f}" y="{MARGIN + y * LINE + 14}" textLength="{len(text) * CELL:.1f}" '
        f'lengthAdjust="spacingAndGlyphs" class="{classes or "plain"}">{escape(text)}</text>'
        for y, line in enumerate(lines)
        for x, text, classes in line
    ]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{STYLE}\n</style>",
            f'<rect class="bg" x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="8"/>',
            *texts,
            "</svg>\n",
        )
    )


def ended(text: str) -> int:
    """Return the number of rows that have ended, by the progress on the screen."""
    found = re.search(r"([\d,]+)/[\d,]+", text)
    return int(found[1].replace(",", "")) if found else 0


def main(count: int) -> None:
    """Run the command, interrupt it, resume it, and write the three pictures."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the command would inherit that it is ignored
    with TemporaryDirectory() as name:
        folder = Path(name)
        example = ROOT / "examples" / "many_inputs.py"
        subprocess.run([sys.executable, example, str(count), "--data", folder / "people.csv"], check=True)
        running = Terminal(COMMAND, folder)
        running.until(lambda text: ended(text) >= count // 3)
        write("running", running, "toolcast map extracts a person from each of the rows of a file, with its progress")
        running.press(CTRL_C)
        assert running.ends() == 130, running.text
        write("interrupted", running, "After Ctrl-C the running rows are finished; the last line says how to resume")
        resumed = Terminal((*COMMAND, "--resume"), folder)
        assert resumed.ends() == 0, resumed.text
        write("resumed", resumed, "With --resume the rows that have a result are not asked again")
        print((folder / "people.jsonl").read_text(encoding="utf-8").splitlines()[0])


def write(name: str, terminal: Terminal, title: str) -> None:
    print(terminal.text, end="\n\n")
    (IMAGES / f"map-{name}.svg").write_text(svg(terminal.screen, title), encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
