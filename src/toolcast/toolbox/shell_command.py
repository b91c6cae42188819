"""The tool `run_command`, which runs shell commands in a folder.

A command has a session and process group of its own, no input, and one pipe for stdout and stderr, so that they stay
in order. Its output is emitted at once (`ToolContext.emit`) and stored; of a long one the beginning and the end. Three
threads are at work:

    the caller's    waits for an event: the shell has ended, the call was cancelled, or the timeout
    a reader        reads the output, until all writers have closed the pipe
    a waiter        waits for the shell to end

However the command ends, its whole group is ended: SIGTERM, at once when the call is cancelled, and SIGKILL for
processes that are alive two seconds later. Only processes that have left the group stay behind.

A command can do whatever its user can. The safeguard is the approval before it runs (agents/permissions), not this
module; its environment is without variables that look like secrets.
"""

from __future__ import annotations

import codecs
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, Final

from ..errors import TryAgain
from ..lazy.lazy_dataclasses import dataclass
from ..tools.callable_tool import CallableTool, ToolOutput
from ..tools.tool_context import ToolContext
from ..tools.tool_options import check_output_limit, check_timeout
from ..values.secret_patterns import is_secret
from .sandbox_paths import SandboxRoot

OUTPUT_LIMIT: Final = 30_000
"""The maximum number of characters of output that the model reads."""

_GRACE = 2.0  # seconds from SIGTERM to SIGKILL
_KILLED = 30.0  # seconds in which a shell has ended after SIGKILL, also on a machine under load
_SHOWN_LIVE = 1_000_000  # characters of one command
_CHUNK = 65_536
_NOTES = 500  # characters beside the output


class Excerpt:
    """The beginning and the end of a text that arrives in chunks: at most `limit` characters."""

    __slots__ = ("_head", "_left_out", "_limit", "_tail")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = self._tail = ""
        self._left_out = 0

    def add(self, chunk: str) -> None:
        """Add a chunk."""
        left = self._limit // 2 - len(self._head)
        self._head += chunk[:left]
        self._tail += chunk[left:]
        surplus = len(self._tail) - (self._limit - self._limit // 2)
        if surplus > 0:
            self._tail = self._tail[surplus:]
            self._left_out += surplus

    @property
    def text(self) -> str:
        """The stored text, with a note on the number of characters left out."""
        if not self._left_out:
            return self._head + self._tail
        return f"{self._head}\n[... {self._left_out:,} characters left out ...]\n{self._tail}"


class _Command:
    """A running command: its process, its output, and the event of its end."""

    def __init__(self, process: subprocess.Popen[bytes], reading: int, limit: int, emit: Callable[[str], None]) -> None:
        self.output = Excerpt(limit)
        self._process, self._reading, self._emit = process, reading, emit
        self._left_to_show = _SHOWN_LIVE
        self._sent: set[str] = set()
        self._events: SimpleQueue[str] = SimpleQueue()
        self._threads = [Thread(target=work, daemon=True, name="run_command") for work in (self._read, self._wait)]
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float | None) -> str:
        """Wait for the end: `ended`, `cancelled`, or `late` where none comes in `seconds`."""
        try:
            return self._events.get(timeout=seconds)
        except Empty:
            return "late"

    def cancel(self) -> None:
        """Begin to end the command; `wait` returns `cancelled`."""
        self._send("SIGTERM")
        self._events.put("cancelled")

    def end(self) -> int | None:
        """End all processes of the command, read the rest of its output, and return its exit code, if there is one."""
        for name in ("SIGTERM", "SIGKILL"):
            self._send(name)
            until = monotonic() + _GRACE
            for thread in self._threads:
                thread.join(max(0.0, until - monotonic()))
        self._threads[1].join(_KILLED)
        self._left_to_show = 0  # the call is over, though processes that left the group may go on writing
        return self._process.poll()

    def _send(self, name: str) -> None:
        """Send a signal to the group, once; without process groups, kill the shell."""
        if not hasattr(os, "killpg"):
            self._process.kill()
        elif name not in self._sent:
            self._sent.add(name)
            with suppress(ProcessLookupError, PermissionError):  # all have ended, or are another user's
                os.killpg(self._process.pid, getattr(signal, name))

    def _wait(self) -> None:
        if hasattr(os, "waitid"):  # it keeps the process id reserved until `end`
            with suppress(ChildProcessError):  # the embedding program ignores SIGCHLD
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()
        self._events.put("ended")

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with os.fdopen(self._reading, "rb", buffering=0) as pipe:
            while chunk := pipe.read(_CHUNK):
                self._take(decoder.decode(chunk))
        self._take(decoder.decode(b"", final=True))

    def _take(self, text: str) -> None:
        self.output.add(text)
        shown = text[: self._left_to_show]
        self._left_to_show -= len(shown)
        if shown:
            self._emit(shown)


@dataclass(frozen=True, slots=True)
class Shell:
    """A shell in a folder. Its method is the tool."""

    root: SandboxRoot
    timeout: float | None
    output_limit: int
    environment: Mapping[str, str] | None
    shell: str

    def run_command(self, command: str, context: ToolContext[Any]) -> ToolOutput:
        """Run a command in a shell, in the working folder. Returns its output and its exit code."""
        context.check()
        running = self._started(command, context.emit)
        forget = context.cancellation.then(running.cancel)
        try:
            event = running.wait(self.timeout)
        finally:
            forget()
            code = running.end()
        context.check()
        ending = f"stopped: it took longer than {self.timeout:g} seconds" if event == "late" else _ending(code)
        output = running.output.text
        between = "" if not output or output.endswith("\n") else "\n"
        return ToolOutput(f"{output}{between}[{ending}]", context.tool, raw_output=code, is_error=event == "late")

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
    """Return the tool `run_command`.

    Args:
        root: The folder in which commands run.
        timeout: The limit of one command in seconds; None: no limit.
        output_limit: The maximum number of characters of output that the model reads.
        environment: The variables of commands; None: those of this process, without those that look like secrets.
        shell: The program that runs a command: `shell -c COMMAND`.

    Raises:
        ValueError: If `root` is no folder, or a limit is out of range.
    """
    check_timeout(timeout)
    check_output_limit(output_limit)
    within = "" if timeout is None else f" It has {timeout:g} seconds."
    tool = CallableTool.from_function(Shell(SandboxRoot(root), timeout, output_limit, environment, shell).run_command)
    return tool.with_(
        description=f"{tool.description}{within} It has no input, and background processes end with it.",
        destructive=True,
        timeout=None if timeout is None else timeout + 3 * _GRACE,  # so that the model reads the output until then
        output_limit=output_limit + _NOTES,
    )


def environment_without_secrets() -> dict[str, str]:
    """Return the variables of this process, without keys, tokens, and URLs with a password."""
    return {name: value for name, value in os.environ.items() if not is_secret(name, value)}


def _ending(code: int | None) -> str:
    """Return how a shell ended, as text."""
    if code is None or code >= 0:
        return f"exit code {code}"
    return f"ended by the signal {-code}, {signal.strsignal(-code)}"
