"""The embedded llama.cpp server: started in this process at the first request, shared, and closed at exit.

`xllamacpp` runs llama.cpp's own HTTP server on a thread of this process, on 127.0.0.1 and a free port; a random API
key excludes other clients. It is used over HTTP, like any other service. All LLMs with the same model file and
options share one server.

Three facts determine the rest. A server that is destroyed right after its start may hang, so it generates one token
first. A server that is destroyed while it writes to a client may hang as well, so its connections are shut down
first. A forked child has none of the server's threads: it must neither use nor destroy it.
"""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from anyio import to_thread

from ...errors import NotFound, ServerError, ToolcastError
from ...lazy.lazy_dataclasses import dataclass
from ...values.credentials import Secret
from .weights import WEIGHTS, is_model_file


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of a model's server. The defaults suit a small model on a few cores.

    `context`: tokens of prompt and answer together. `threads`: None for all cores this process may use.
    `batch`: prompt tokens processed at once; a cancelled request ends after that many. `gpu_layers`: layers
    that go to a GPU. `cache_mib`: memory for cached prompts, in MiB.
    """

    context: int = 4096
    threads: int | None = None
    batch: int = 128
    gpu_layers: int = 0
    cache_mib: int = 64


class LocalServer:
    """A server for the model file at `path`; it starts at the first `ready()` or `aready()`.

    `embedded` is xllamacpp's own object while the server runs, else None.
    """

    def __init__(self, path: Path, options: ServerOptions) -> None:
        self.path = path
        self.options = options
        self.api_key: Secret = Secret(secrets.token_urlsafe(32))
        self._lock = Lock()
        self.embedded: Any = None

    @property
    def base_url(self) -> str:
        """The URL to which `/chat/completions` is appended; starts the server if necessary."""
        self.ready()
        return f"{self.embedded.listening_address}/v1"

    @property
    def is_running(self) -> bool:
        """True if the server has been started and not closed since."""
        return self.embedded is not None

    def ready(self) -> None:
        """Start the server unless it runs, in about half a second.

        Raises:
            ImportError: xllamacpp is not installed.
            NotFound: The file is not a complete model.
            ServerError: llama.cpp could not start.
        """
        _check_process()
        with self._lock:
            if self.embedded is None:
                check_file(self.path)
                self.embedded = _start(self.path, self.options, self.api_key)

    async def aready(self) -> None:
        """Start the server like `ready()`, in a worker thread."""
        if self.embedded is None:
            await to_thread.run_sync(self.ready)
        _check_process()

    def close(self) -> None:
        """Shut down the server's connections and stop it. The next `ready()` starts a new one."""
        if _process not in (None, os.getpid()):
            return
        with self._lock:
            if self.embedded is not None:
                _hang_up(int(self.embedded.listening_address.rpartition(":")[2]))
                self.embedded = None


_servers: dict[tuple[Path, ServerOptions], LocalServer] = {}
_servers_lock = Lock()
_process: int | None = None
"""The id of the process that has started a server. Its forks must not start one."""


def running(path: str | Path, options: ServerOptions | None = None) -> LocalServer:
    """Return this process's one server for a model file and options. It starts when it is first needed."""
    key = (Path(os.path.expanduser(path)).resolve(), options or ServerOptions())
    with _servers_lock:
        return _servers.setdefault(key, LocalServer(*key))


def check_file(path: Path) -> None:
    """Raise `NotFound` unless `path` is a model file, as llama.cpp gives no reason for its failure."""
    try:
        if not path.is_file():
            raise NotFound(f"there is no model file {path}; `toolcast pull smollm2` fetches one")
        if not is_model_file(path):
            raise NotFound(f"{path} is not a GGUF model file")
        size = path.stat().st_size
    except OSError as error:
        raise NotFound(f"the model file {path} cannot be read: {error.strerror}") from error
    whole = next((known.size for known in WEIGHTS.values() if known.file == path.name), size)
    if size != whole:
        raise NotFound(f"{path} is incomplete: {size} of {whole} bytes; `toolcast pull` fetches it again")


def _start(path: Path, options: ServerOptions, key: Secret) -> Any:
    global _process
    try:
        with _waiting_asleep():
            xllamacpp = import_module("xllamacpp")
    except ImportError as error:
        raise ImportError(
            "the embedded model needs xllamacpp: pip install 'toolcast[local]'", name="xllamacpp"
        ) from error
    if _process is None:
        _process = os.getpid()
        atexit.register(_close_all)
    try:
        server = xllamacpp.Server(_params(xllamacpp.CommonParams(), path, options, key))
    except RuntimeError as error:
        raise ServerError(
            f"llama.cpp could not start with {path} ({path.stat().st_size} bytes): {error}. "
            "Is the file complete, and is there enough memory?",
            retryable=False,
        ) from error
    server.handle_completions({"prompt": "a", "n_predict": 1}, _ignore)
    return server


@contextmanager
def _waiting_asleep() -> Generator[None]:
    """Let llama.cpp's threads sleep soon while they wait for each other, unless the user has set it otherwise.

    Waiting in a loop, as OpenMP does by default, makes everything ten times slower where something else needs a
    core; sleeping at once makes it half as fast where nothing does. 2,000 turns cost little in either case. OpenMP
    reads its variables when it is loaded; afterwards they are restored.
    """
    given = {name: os.environ.get(name) for name in _OPENMP}
    os.environ.update({name: given[name] or value for name, value in _OPENMP.items()})
    try:
        yield
    finally:
        for name, value in given.items():
            if value is None:
                del os.environ[name]


_OPENMP = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "2000"}


def _params(params: Any, path: Path, options: ServerOptions, key: Secret) -> Any:
    params.model.path = str(path)
    params.n_ctx = options.context
    params.n_parallel = 1  # more slots divide the context, and are no faster on a few cores
    params.n_batch = params.n_ubatch = options.batch
    params.n_gpu_layers = options.gpu_layers
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads or _cores()
    params.cache_ram_mib = options.cache_mib
    params.verbosity = -1  # it logs to file descriptor 2, past sys.stderr
    params.ui = False
    params.endpoint_slots = False
    params.api_keys = [key.reveal()]
    params.model_alias = {path.stem}  # or else its answers name the file with all its folders
    return params


def _cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _ignore(answer: object) -> None:
    """Discard the answer to the warm-up request."""


def _check_process() -> None:
    if _process not in (None, os.getpid()):
        raise ToolcastError(
            "the embedded model was started before this process was forked, and cannot be used after a fork; "
            "start processes with multiprocessing's 'spawn' method"
        )


def _close_all() -> None:
    for server in list(_servers.values()):
        server.close()


def _hang_up(port: int) -> None:
    """Shut the server's end of every connection to `port`; its clients' streams are interrupted.

    The server runs in this process, so its sockets are among our own file descriptors.
    """
    folder = Path("/dev/fd")
    if not folder.is_dir():  # Windows, which lists none
        return
    for descriptor in list(folder.iterdir()):
        number = int(descriptor.name)
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):  # a copy of it would stay open
                continue
            with socket.socket(fileno=os.dup(number)) as connection:
                if connection.getsockname()[1] == port:
                    connection.shutdown(socket.SHUT_RDWR)
        except (OSError, IndexError):  # closed since, of another family, or one that merely listens
            continue


def _leave_to_parent() -> None:
    """Prevent a forked child from destroying the servers, which would wait for threads that only the parent has."""
    if _process is None:
        return
    import ctypes

    for server in _servers.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(server.embedded))
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):
        # llama.cpp's own static objects wait as well. Handlers of exit() run last in, first out, so with this
        # one (glibc's; given the exit status) theirs never run.
        libc.on_exit(libc._exit, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
