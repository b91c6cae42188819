"""local_model.py on a machine without xllamacpp: what it asks of the module, and what it does with it after that."""

from __future__ import annotations

import ctypes
import gc
import os
import socket
import sys
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.process import Process
from toolcast.errors import ServerError, ToolcastError
from toolcast.llms.local import llama_server as local_model
from toolcast.llms.local.llama_server import LocalServer, ServerOptions, running

HANG_UP = local_model._hang_up


class FakeServer:
    """llama.cpp's server as far as it is used: an open port, and completions."""

    def __init__(self, params: Any) -> None:
        if "broken" in params.model.path:
            raise RuntimeError("failed to load model")
        self.params = params
        self.completed: list[Any] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.listening_address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def handle_completions(self, request: Any, answer: Any) -> None:
        self.completed.append(request)
        answer({"content": "b"})

    def connected(self) -> tuple[socket.socket, socket.socket]:
        """Both ends of one connection: the client's and the server's."""
        client = socket.create_connection(self._socket.getsockname())
        return client, self._socket.accept()[0]

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()


def common_params() -> SimpleNamespace:
    return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())


class Loaded:
    """What the fake module saw of the process when it was imported, and what was left to do at exit."""

    def __init__(self) -> None:
        self.environment: list[dict[str, str | None]] = []
        self.at_exit: list[Any] = []
        self.hung_up: list[int] = []

    def import_module(self, name: str) -> Any:
        assert name == "xllamacpp"
        self.environment.append({name: os.environ.get(name) for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")})
        return SimpleNamespace(Server=FakeServer, CommonParams=common_params)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Loaded:
    """A process that has started no server yet, and has the fake module."""
    seen = Loaded()
    monkeypatch.setattr(local_model, "_servers", {})
    monkeypatch.setattr(local_model, "_process", None)
    monkeypatch.setattr(local_model, "import_module", seen.import_module)
    monkeypatch.setattr(local_model, "atexit", SimpleNamespace(register=seen.at_exit.append))
    monkeypatch.setattr(local_model, "_hang_up", seen.hung_up.append)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    return seen


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF")
    return path


def test_it_starts_once_and_answers_at_its_address(loaded: Loaded, file: Path) -> None:
    server = running(file, ServerOptions(context=512, threads=3, batch=32, gpu_layers=9, cache_mib=1))
    assert not server.is_running
    url = server.base_url
    first = server.embedded
    assert url == f"{first.listening_address}/v1"
    assert server.is_running
    server.ready()
    assert server.embedded is first
    assert [request["n_predict"] for request in first.completed] == [1]
    params = first.params
    assert (params.n_ctx, params.n_batch, params.n_ubatch, params.n_parallel) == (512, 32, 32, 1)
    assert (params.n_gpu_layers, params.cache_ram_mib) == (9, 1)
    assert params.cpuparams.n_threads == params.cpuparams_batch.n_threads == 3
    assert params.model.path == str(file)
    assert params.model_alias == {"tiny"}
    assert params.api_keys == [server.api_key.reveal()]
    assert len(params.api_keys[0]) > 30


def test_it_takes_the_cores_there_are(loaded: Loaded, file: Path) -> None:
    server = running(file)
    server.ready()
    assert server.embedded.params.cpuparams.n_threads == local_model._cores()


def test_threads_of_llama_cpp_sleep_while_they_wait(
    loaded: Loaded, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    running(file).ready()
    assert loaded.environment == [{"OMP_WAIT_POLICY": "ACTIVE", "GOMP_SPINCOUNT": "2000"}]
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"
    assert "GOMP_SPINCOUNT" not in os.environ


async def test_it_starts_in_a_worker_thread(loaded: Loaded, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    start = local_model._start

    def noted(*given: Any) -> Any:
        threads.append(threading.current_thread())
        return start(*given)

    monkeypatch.setattr(local_model, "_start", noted)
    server = running(file)
    await server.aready()
    await server.aready()
    assert server.is_running
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


def test_a_file_that_llama_cpp_refuses(loaded: Loaded, tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF")
    server = running(path)
    with pytest.raises(ServerError, match=r"could not start .* \(4 bytes\): failed to load model") as caught:
        server.ready()
    assert not caught.value.retryable
    assert not server.is_running


def test_closing_hangs_up_and_the_next_use_starts_again(
    loaded: Loaded, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_model, "_hang_up", HANG_UP)
    server = running(file)
    server.ready()
    client, theirs = server.embedded.connected()
    with client, theirs, socket.create_server(("127.0.0.1", 0)) as other:
        bystander = socket.create_connection(other.getsockname())
        with bystander, other.accept()[0] as answering:
            client.settimeout(5)
            server.close()
            assert client.recv(1) == b""
            answering.sendall(b"x")
            assert bystander.recv(1) == b"x"
    assert not server.is_running
    server.close()
    assert server.base_url.startswith("http://127.0.0.1:")


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="this system lists no descriptors")
def test_hanging_up_leaves_no_descriptor_open(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb"), socket.create_server(("127.0.0.1", 0)) as listening:
        before = descriptors()
        HANG_UP(listening.getsockname()[1])
        left = descriptors() - before
    for number in left:
        os.close(number)
    assert left == set()


def descriptors() -> set[int]:
    """The file descriptors of this process."""
    return {int(path.name) for path in list(Path("/dev/fd").iterdir()) if path.exists()}


def test_a_closed_server_is_let_go(loaded: Loaded, file: Path) -> None:
    server = running(file)
    server.ready()
    embedded = weakref.ref(server.embedded)
    server.close()
    gc.collect()
    assert embedded() is None


def test_where_no_descriptors_are_listed_nothing_is_hung_up(
    loaded: Loaded, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = running(file)
    server.ready()
    client, theirs = server.embedded.connected()
    with client, theirs:
        with monkeypatch.context() as patched:
            patched.setattr(local_model, "_hang_up", HANG_UP)
            patched.setattr(local_model, "Path", lambda name: tmp_path / "absent")
            server.close()
        assert not server.is_running
        theirs.sendall(b"x")
        assert client.recv(1) == b"x"


def test_every_server_is_closed_at_exit(loaded: Loaded, file: Path) -> None:
    servers = [running(file), running(file, ServerOptions(context=512)), running(file, ServerOptions(context=256))]
    for server in servers[:2]:
        server.ready()
    (close_all,) = loaded.at_exit
    close_all()
    assert [server.is_running for server in servers] == [False, False, False]
    assert len(loaded.hung_up) == 2


async def test_after_a_fork_it_is_not_used(loaded: Loaded, file: Path, process: Process) -> None:
    server = running(file)
    server.ready()
    with process.as_child():
        with pytest.raises(ToolcastError, match="'spawn'"):
            server.ready()
        with pytest.raises(ToolcastError, match="'spawn'"):
            await server.aready()
        with pytest.raises(ToolcastError, match="'spawn'"):
            LocalServer(file, ServerOptions(threads=1)).ready()
        server.close()
        assert server.is_running


class FakeLibrary:
    """A C library that takes handlers of `exit()`."""

    def __init__(self, name: object) -> None:
        self.handlers: list[tuple[object, object]] = []
        libraries.append(self)

    def _exit(self, status: int) -> None:
        raise AssertionError("called at exit, not before")

    def on_exit(self, handler: object, argument: object) -> None:
        self.handlers.append((handler, argument))


class SmallLibrary:
    """A C library that is not glibc."""

    def __init__(self, name: object) -> None:
        libraries.append(self)


libraries: list[Any] = []


@pytest.mark.parametrize("library", [FakeLibrary, SmallLibrary])
def test_a_forked_child_never_destroys_the_servers(
    loaded: Loaded, file: Path, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries.clear()
    monkeypatch.setattr(ctypes, "CDLL", library)
    local_model._leave_to_parent()
    assert libraries == []
    server = running(file)
    server.ready()
    embedded = server.embedded
    held = sys.getrefcount(embedded)
    local_model._leave_to_parent()
    assert sys.getrefcount(embedded) == held + 1
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(embedded))
    (used,) = libraries
    if library is FakeLibrary:
        assert used.handlers == [(used._exit, None)]


def test_a_system_that_cannot_fork_has_nothing_to_leave(process: Process) -> None:
    process.lacks("register_at_fork")
    other = process.loaded_on(sys.platform, local_model, "toolcast.llms.local.server_without_fork")
    assert other.LocalServer is not LocalServer
    assert not other.running("m.gguf").is_running
