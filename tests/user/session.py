"""A person at a terminal: a script in a Python process of its own, and all that shows on its screen.

    with Loopback() as server:
        server.answer(*spoken(*album_stream()))
        screen = play("print(make_album(topic='the sea'))", server)

Every script begins with `OPENING`: the models, and `make_album`, whose LLM is at the address given. Warnings
are errors, in the script as here; whatever the script, no `NOISE` and no key may show.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from textwrap import dedent
from typing import IO
from weakref import WeakSet

from support import warm_python
from support.loopback import END, Loopback, Piece, chunk, head, whole

KEY = "sk-user-0123456789abcdef"
PATIENCE = 30.0

OPENING = f"""\
import sys
from pydantic import BaseModel
from toolcast import OpenAI, Settings, Timeouts, ToolOrchestratingLLM

class Song(BaseModel):
    title: str
    seconds: int

class Album(BaseModel):
    '''A music album.'''
    title: str
    artist: str
    songs: list[Song]

llm = OpenAI("m-1", base_url=sys.argv[1], api_key="{KEY}", max_retries=0)
make_album = ToolOrchestratingLLM(output_cls=Album, prompt="Create an album about {{topic}}", llm=llm)
"""

# A process that was started in the background would ignore it.
CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"

# Warnings of the interpreter or a library; none of them is ever expected.
NOISE = (
    "Exception ignored",
    "never awaited",
    "never retrieved",
    "Event loop is closed",
    "Warning",
    "site-packages/httpx",
    "site-packages/httpcore",
    "site-packages/anyio",
)


@dataclass(frozen=True)
class Screen:
    """What showed: standard output, standard error, and how the process ended."""

    out: str
    err: str
    code: int

    @property
    def last(self) -> str:
        """The line a person reads first after a failure: the last one of standard error."""
        return self.err.strip().rpartition("\n")[2]

    @property
    def lines(self) -> list[str]:
        """The lines of standard output."""
        return self.out.splitlines()

    def failed_with(self, error: str) -> str:
        """Return the text of the last line after the name of the error, which must be `error`, toolcast's own."""
        name, _, words = self.last.partition(": ")
        assert self.code == 1, self.err
        assert name == f"toolcast.errors.{error}", self.err
        assert "During handling of the above exception" not in self.err, self.err
        return words

    def went_well(self) -> list[str]:
        """The lines of standard output, after a script with nothing to complain about."""
        assert (self.code, self.err) == (0, ""), self.err
        return self.lines


def spoken(*pieces: bytes | Piece) -> list[Piece]:
    """An event stream whose body comes in these pieces; what is not bytes happens between them."""
    body: list[Piece] = [chunk(piece) if isinstance(piece, bytes) else piece for piece in pieces]
    return [head(200, "content-type: text/event-stream", "transfer-encoding: chunked"), *body, END]


def answered(body: bytes, status: int = 200, kind: str = "application/json") -> bytes:
    """A whole answer."""
    return whole(body, status, f"content-type: {kind}")


def address(server: Loopback) -> str:
    """The `base_url` that leads to `server`."""
    return f"http://127.0.0.1:{server.port}/v1"


def play(script: str, at: Loopback | str = "http://127.0.0.1:9/v1", *, opening: str = OPENING) -> Screen:
    """The screen after the script has run to its end."""
    return finish(begin(script, at, opening=opening))


def type_in(lines: str, at: Loopback | str) -> Screen:
    """The screen after a person typed `OPENING` and then these lines into an interactive interpreter."""
    python = subprocess.Popen(
        [sys.executable, "-W", "error", "-q", "-i", "-c", OPENING, _url(at)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    return finish(python, dedent(lines) + "\n")


def begin(script: str, at: Loopback | str, *, opening: str = OPENING) -> subprocess.Popen[str]:
    """The script, running. Ctrl-C means what it means at a terminal."""
    source = f"{opening}\n{CTRL_C}\n{dedent(script)}"
    return warm_python.Popen(
        [sys.executable, "-W", "error", "-u", "-c", source, _url(at)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


_interrupted: WeakSet[subprocess.Popen[str]] = WeakSet()


def finish(python: subprocess.Popen[str], typed: str | None = None) -> Screen:
    """The screen once the process has ended; one that hangs is killed, and the test fails.

    Ctrl-C is pressed a second time where the first has had no effect for long. Python looks for signals between its
    instructions: it may miss one that arrives just before it blocks in a system call, until that call returns.
    """
    try:
        try:
            out, err = python.communicate(typed, PATIENCE / 3)
        except subprocess.TimeoutExpired:
            if python in _interrupted:
                python.send_signal(signal.SIGINT)
            out, err = python.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        python.kill()
        out, err = python.communicate()
        raise AssertionError(f"the script hung; it had shown:\n{out}\n{err}") from None
    for noise in NOISE:
        assert noise not in err, err
    assert KEY not in out + err
    return Screen(out, err, python.returncode)


def press_ctrl_c(python: subprocess.Popen[str], after: str) -> str:
    """Wait until the script has printed a line that begins with `after`, then press Ctrl-C; gives all lines so far."""
    shown = ""
    for line in _lines(python.stdout):
        shown += line
        if line.startswith(after):
            _interrupted.add(python)
            python.send_signal(signal.SIGINT)
            return shown
    raise AssertionError(f"the script ended without printing {after!r}; its output: {finish(python)}")


def environment(**more: str) -> dict[str, str]:
    """This process's environment as a newcomer has it: no keys, no addresses, no proxy."""
    foreign = ("_API_KEY", "_BASE_URL", "_HOST", "_PROXY", "_proxy")
    return {name: value for name, value in os.environ.items() if not name.endswith(foreign)} | more


def command_environment(**more: str) -> dict[str, str]:
    """Return the same for the `toolcast` command, without measuring its coverage, which takes time and files."""
    return {name: value for name, value in environment(**more).items() if not name.startswith("COVERAGE")}


def _url(at: Loopback | str) -> str:
    return at if isinstance(at, str) else address(at)


def _lines(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
