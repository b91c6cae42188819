"""Python programs that begin warm: forked from a process that has imported toolcast and made one call.

    process = warm_python.Popen([sys.executable, "-W", "error", "-c", source, *words], env=env, stdout=PIPE)

It is `subprocess.Popen` for programs in the argument of `-c`, which begin in a few milliseconds in place of half a
second. Any other command, and a program whose coverage is measured, begins as usual. A test of what a start itself does
(imports, exit codes, the first call) uses `subprocess`.

The fixture `warm_programs` lets the library itself begin its programs so.

Run as a program, this module is the process that is forked, one for each set of options and PYTHON* variables.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

_FDS = 4  # the three streams, and the socket of the status


def take_terminal() -> None:
    """Make stdin the controlling terminal; a `preexec_fn`."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Popen(subprocess.Popen[Any]):
    """A process that has been forked from a warm one, where that can be."""

    _status: socket.socket | None = None

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *more: Any) -> None:
        _, passed, cwd, env, _, _, shell, stdin, _, _, stdout, _, stderr, _, gid, gids, uid, _, session, group = more
        usual = preexec_fn in (None, take_terminal) and (gid, gids, uid, group) == (None, None, None, -1)
        program = _program(args) if usual and not (shell or passed) else None
        variables = dict(os.environ if env is None else env)
        if program is None or any(name.startswith("COVERAGE") for name in variables):
            super()._execute_child(args, executable, preexec_fn, *more)
            return
        options, source, words = program
        request = {
            "unbuffered": "-u" in options,
            "source": source,
            "words": words,
            "terminal": preexec_fn is take_terminal,
            "session": session,
            "env": variables,
            "cwd": os.fspath(cwd or Path.cwd()),
        }
        self._status, theirs = socket.socketpair()  # ours is closed with the status
        streams = [own if fd == -1 else fd for own, fd in enumerate((stdin, stdout, stderr))]
        socket.send_fds(_server(options, variables), [json.dumps(request).encode()], [*streams, theirs.fileno()])
        theirs.close()
        self._close_pipe_fds(*more[7:13])
        self.pid = self._next_number()
        self._child_created = True

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if self._status is None:
            return super()._try_wait(flags)
        if flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        with self._status:
            return self.pid, self._next_number()

    def _internal_poll(self, *given: Any, **options: Any) -> int | None:
        if self._status is None:
            return super()._internal_poll(*given, **options)
        if self.returncode is None:
            ended, status = self._try_wait(os.WNOHANG)
            if ended:
                self._handle_exitstatus(status)
        return self.returncode

    def _next_number(self) -> int:
        assert self._status is not None
        number = self._status.recv(4)
        if len(number) < 4:
            raise ChildProcessError("the warm process has ended")
        return int.from_bytes(number, "big", signed=True)


@pytest.fixture
def warm_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything that uses `subprocess` fork its programs from a warm process."""
    monkeypatch.setattr(subprocess, "Popen", Popen)


def run(command: list[str], *, input: Any = None, check: bool = False, **options: Any) -> Any:
    """Run a program to its end, as `subprocess.run` does."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    timeout = options.pop("timeout", None)
    with Popen(command, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        finally:
            process.kill()
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _program(command: Any) -> tuple[tuple[str, ...], str, list[str]] | None:
    """Return the options, the source and the arguments of `python ... -c SOURCE ...`; None of any other command."""
    python, *rest = command if isinstance(command, list) and all(isinstance(word, str) for word in command) else [""]
    options = tuple(rest[: rest.index("-c")]) if "-c" in rest else None
    if python != sys.executable or options not in ((), ("-W", "error"), ("-W", "error", "-u")):
        return None
    source, *words = rest[len(options) + 1 :]
    return options, source, words


_servers: dict[Any, tuple[socket.socket, subprocess.Popen[bytes]]] = {}


@atexit.register
def _end_servers() -> None:
    for connection, process in _servers.values():
        connection.close()
        process.wait()


def _server(options: tuple[str, ...], env: Mapping[str, str]) -> socket.socket:
    """Return the connection to a warm process with these options, which ends with the connection."""
    flags = tuple(option for option in options if option != "-u")
    startup = {name: text for name, text in env.items() if name.startswith(("PYTHON", "LC_", "LANG"))}
    key = (os.getpid(), flags, *sorted(startup.items()))
    if key not in _servers:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        neutral = {name: text for name, text in env.items() if not name.startswith(("TOOLCAST", "OLLAMA"))}
        command = [sys.executable, *flags, __file__, str(theirs.fileno())]
        _servers[key] = ours, subprocess.Popen(command, env=neutral, pass_fds=[theirs.fileno()])
        theirs.close()
    return _servers[key][0]


def _serve(connection: socket.socket) -> dict[str, Any] | None:
    """Fork a child for each request. Return its request in a child, and None at the end of the connection."""
    running: dict[int, socket.socket] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([connection, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap(running)
        if connection not in ready:
            continue
        data, fds, _, _ = socket.recv_fds(connection, 1 << 20, _FDS)
        if not data:
            for each in running.values():
                each.close()
            return None
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number, fd in enumerate(fds[:3]):
                os.dup2(fd, number)
            os.closerange(3, max(*fds, wake, connection.fileno(), *(each.fileno() for each in running.values())) + 1)
            connection.detach()
            for each in running.values():
                each.detach()
            return dict(json.loads(data))
        for fd in fds[:3]:
            os.close(fd)
        running[pid] = socket.socket(fileno=fds[3])
        running[pid].sendall(pid.to_bytes(4, "big"))


def _reap(running: dict[int, socket.socket]) -> None:
    """Send the status of each child that has ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as connection, suppress(BrokenPipeError):  # its parent may not wait for it
            connection.sendall(status.to_bytes(4, "big"))


def _become(request: dict[str, Any]) -> NoReturn:
    """Make this process what `python -c` would have begun with, run the program, and end."""
    if request["terminal"]:
        take_terminal()
    elif request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv = ["-c", *request["words"]]
    sys.path[0] = ""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _stream(number, getattr(sys, name), request["unbuffered"])
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    this, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    code = _run(request["source"], vars(sys.modules["__main__"]))
    # As the end of an interpreter, without the time that it takes to free all modules.
    threading._shutdown()
    atexit._run_exitfuncs()
    vars(sys.modules["__main__"]).clear()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
    del this
    os._exit(code & 0xFF)


def _run(source: str, names: dict[str, Any]) -> int:
    """Run a program. Return its exit code, negative for a signal."""
    try:
        exec(compile(source, "<string>", "exec"), names)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = error.__traceback__.tb_next if error.__traceback__ else None  # without the frame of this function
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _stream(number: int, old: io.TextIOWrapper, unbuffered: bool) -> io.TextIOWrapper:
    """Return a standard stream over its new file, with the encoding of the one from the start."""
    raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    buffer: Any = io.BufferedReader(raw) if number == 0 else raw if unbuffered else io.BufferedWriter(raw)
    lines = number == 2 or raw.isatty()
    made = io.TextIOWrapper(buffer, old.encoding, old.errors, line_buffering=lines, write_through=unbuffered)
    made.mode = "r" if number == 0 else "w"
    return made


def _warm_up() -> None:
    """Import what programs use, and make a call that cannot connect."""
    import genai_prices.data_snapshot  # noqa: F401  # of the first price
    import pydantic

    import toolcast.apps

    class Song(pydantic.BaseModel):
        title: str

    for package in [getattr(toolcast, name) for name in toolcast.__all__]:
        for name in getattr(package, "__all__", ()):
            getattr(package, name)
    for module in pkgutil.walk_packages(toolcast.apps.__path__, "toolcast.apps."):
        importlib.import_module(module.name)
    llm = toolcast.OpenAI("m-1", base_url="http://127.0.0.1:9/v1", api_key="k", max_retries=0)
    with llm, suppress(toolcast.errors.ConnectFailed):
        toolcast.ToolOrchestratingLLM(Song, "A song about {topic}", llm)(topic="the sea")


def _main() -> None:
    _warm_up()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        request = _serve(connection)
    if request is not None:
        _become(request)


if __name__ == "__main__":
    _main()
