"""A tool that runs commands in a shell, in a folder.

A command gets a session and process group of its own, nothing to read, and one pipe for all it says, so that errors
stand where they happened. What it says is shown at once (`ToolContext.emit`) and kept, of a long output the beginning
and the end. Three threads look after it:

    the caller's    waits for news: the shell has ended, the call was cancelled, or no news in time
    one reads       what the command says, until nobody holds the other end of the pipe
    one waits       for the shell to end

However it ends, the whole group ends with it: SIGTERM, at a cancellation in the very moment, and SIGKILL for what is
still there after two seconds. So nothing stays behind in the background, but for what left the group of its own will.

A command is a program like any other: it can do whatever its user can. What keeps it in bounds is who is asked before
it runs (permissions.py), not this file; the environment it gets is without what looks like a key.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, Final

from ..errors import TryAgain
from ..tools.callable_tool import CallableTool, ToolOutput
from ..tools.context import ToolContext
from ..tools.options import check_output_limit, check_timeout
from .sandbox_paths import SandboxRoot

SECRET_VARIABLES: Final = (
    *("*_KEY", "*APIKEY", "*_KEY_ID", "*TOKEN", "*TOKENS", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*"),
    *("*CREDENTIALS*", "*_PAT", "*_PASS", "*_PWD", "*_AUTH", "*_AUTH_CONFIG", "*_JWT", "*_COOKIE"),
    *("*_DSN", "DATABASE_URL", "*_DATABASE_URL"),
)
"""Globs for the names of variables, in upper case, that commands do not get by themselves."""

OUTPUT_LIMIT: Final = 30_000
"""Characters of what a command says that a model reads."""

_GRACE = 2.0  # seconds from SIGTERM to SIGKILL
_SHOWN_LIVE = 1_000_000  # characters of one command
_PIECE = 65_536
_NOTES = 500  # characters beside the output
_has_password = re.compile(r"://[^/\s:@]*:[^/\s@]+@").search


class Excerpt:
    """The beginning and the end of a text that comes in pieces, at most `limit` characters of it."""

    __slots__ = ("_head", "_left_out", "_limit", "_tail")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = self._tail = ""
        self._left_out = 0

    def add(self, piece: str) -> None:
        """One more piece."""
        room = self._limit // 2 - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        surplus = len(self._tail) - (self._limit - self._limit // 2)
        if surplus > 0:
            self._tail = self._tail[surplus:]
            self._left_out += surplus

    @property
    def text(self) -> str:
        """What is kept, and how much was left out between."""
        if not self._left_out:
            return self._head + self._tail
        return f"{self._head}\n[... {self._left_out:,} characters left out ...]\n{self._tail}"


class _Command:
    """A command that runs: its process, what it has said, and the news of its end."""

    def __init__(self, process: subprocess.Popen[bytes], reading: int, limit: int, emit: Callable[[str], None]) -> None:
        self.said = Excerpt(limit)
        self._process, self._reading, self._emit = process, reading, emit
        self._left_to_show = _SHOWN_LIVE
        self._sent: set[str] = set()
        self._news: SimpleQueue[str] = SimpleQueue()
        self._threads = [Thread(target=work, daemon=True, name="run_command") for work in (self._read, self._wait)]
        for thread in self._threads:
            thread.start()

    def news(self, seconds: float | None) -> str:
        """Wait for the end: `ended`, `cancelled`, or `late` where none comes in `seconds`."""
        try:
            return self._news.get(timeout=seconds)
        except Empty:
            return "late"

    def cancel(self) -> None:
        """Have it end."""
        self._send("SIGTERM")
        self._news.put("cancelled")

    def end(self) -> int | None:
        """End all that still runs of it, and wait for what it said last. Gives the exit code, None if there is none."""
        for name in ("SIGTERM", "SIGKILL"):
            self._send(name)
            until = monotonic() + _GRACE
            for thread in self._threads:
                thread.join(max(0.0, until - monotonic()))
        self._left_to_show = 0  # nobody follows the call any longer, though what left the group may go on
        return self._process.poll()

    def _send(self, name: str) -> None:
        """Send a signal to the group, once; where there are no groups, end the shell."""
        if not hasattr(os, "killpg"):
            self._process.kill()
        elif name not in self._sent:
            self._sent.add(name)
            with suppress(ProcessLookupError, PermissionError):  # all have ended, or are another user's
                os.killpg(self._process.pid, getattr(signal, name))

    def _wait(self) -> None:
        if hasattr(os, "waitid"):  # it leaves the process there, so that its number is no other group's until `end`
            with suppress(ChildProcessError):  # the program around us lets the system clear them away
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()
        self._news.put("ended")

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with os.fdopen(self._reading, "rb", buffering=0) as pipe:
            while piece := pipe.read(_PIECE):
                self._take(decoder.decode(piece))
        self._take(decoder.decode(b"", final=True))

    def _take(self, text: str) -> None:
        self.said.add(text)
        shown = text[: self._left_to_show]
        self._left_to_show -= len(shown)
        if shown:
            self._emit(shown)


@dataclass(frozen=True, slots=True)
class Shell:
    """A shell that runs commands in a folder. Its method is the tool."""

    root: SandboxRoot
    timeout: float | None
    output_limit: int
    environment: Mapping[str, str] | None
    shell: str

    def run_command(self, command: str, context: ToolContext[Any]) -> ToolOutput:
        """Run a command in a shell, in the working folder. Gives what it says, and its exit code."""
        context.check()
        running = self._started(command, context.emit)
        forget = context.cancellation.then(running.cancel)
        try:
            news = running.news(self.timeout)
        finally:
            forget()
            code = running.end()
        context.check()
        ending = f"stopped: it took longer than {self.timeout:g} seconds" if news == "late" else _told(code)
        said = running.said.text
        between = "" if not said or said.endswith("\n") else "\n"
        return ToolOutput(f"{said}{between}[{ending}]", context.tool, raw_output=code, is_error=news == "late")

    def _started(self, command: str, emit: Callable[[str], None]) -> _Command:
        reading, writing = os.pipe()
        try:
            process = subprocess.Popen(
                [self.shell, "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=subprocess.STDOUT,
                cwd=self.root.path,
                env=environment_without_secrets() if self.environment is None else self.environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # a ValueError: the command has a NUL in it
            os.close(reading)
            raise TryAgain(f"the command could not be started with {self.shell}: {error}") from error
        finally:
            os.close(writing)
        return _Command(process, reading, self.output_limit, emit)


def command_tool(
    root: str | os.PathLike[str] = ".",
    *,
    timeout: float | None = 120.0,
    output_limit: int = OUTPUT_LIMIT,
    environment: Mapping[str, str] | None = None,
    shell: str = "/bin/sh",
) -> CallableTool:
    """The tool run_command: a command, run by `shell` in the folder `root`, for at most `timeout` seconds.

    The model reads `output_limit` characters of what it says. `environment` is all that it gets of variables; None:
    those of this process, without what looks like a secret. Raises `ValueError` where `root` is no folder.
    """
    check_timeout(timeout)
    check_output_limit(output_limit)
    within = "" if timeout is None else f" It has {timeout:g} seconds."
    tool = CallableTool.from_function(Shell(SandboxRoot(root), timeout, output_limit, environment, shell).run_command)
    return tool.with_(
        description=f"{tool.description}{within} It can ask nobody, and what it leaves in the background ends with it.",
        destructive=True,
        timeout=None if timeout is None else timeout + 3 * _GRACE,  # so that the model reads what was said until then
        output_limit=output_limit + _NOTES,
    )


def environment_without_secrets() -> dict[str, str]:
    """The variables of this process, but for what looks like keys and tokens, and for addresses with a password."""
    return {name: value for name, value in os.environ.items() if not (is_secret(name) or _has_password(value))}


def is_secret(variable: str) -> bool:
    """Whether a variable of this name looks like a secret."""
    return any(fnmatchcase(variable.upper(), glob) for glob in SECRET_VARIABLES)


def _told(code: int | None) -> str:
    """How a shell ended, in words."""
    if code is None or code >= 0:
        return f"exit code {code}"
    return f"ended by the signal {-code}, {signal.strsignal(-code)}"
