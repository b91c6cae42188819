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
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pexpect
import pyte
from terminal_picture import PictureScreen, picture

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
COLUMNS, ROWS = 80, 12
CTRL_C = "\x03"
COMMAND = ("toolcast", "map", "name, age int, city", "--input", "people.csv", "--output", "people.jsonl")
PROGRAM = "import sys; from toolcast.apps.cli import main; sys.exit(main())"
PATIENCE = 1800.0  # seconds: a busy machine takes minutes


class Terminal:
    """A program in a pseudo-terminal, and its screen."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self.screen = PictureScreen(COLUMNS, ROWS)
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
    (IMAGES / f"map-{name}.svg").write_text(picture(terminal.screen, title), encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
