"""Paths that stay below a folder, whatever lies there and whoever changes it meanwhile.

Strategy: a path is walked here, one name after the other, and not by the system. Each folder is opened from the one
before it, and links are never followed by the opening: they are read, and what they say is walked like the rest. `..`
goes back to the folder one came from. So nothing above the root is ever opened, and a link that is put in between
does not lead out either: what was opened stays what it was.

    a name          a file, folder or nothing: the next step, or the place itself
    a link          its text takes its place; at most 40 in a path
    `..`            the folder before; at the root: refused
    an absolute     from the root on if it begins with the root's path, otherwise refused

Protected names (safe_paths.py) are the affair of `Permissions`, which look at the path before the call. A link may be
another by then, so one that leads to such a name is refused here.

What is no file or folder is never opened: a pipe would keep one waiting, a device do something. Where a system cannot
open from open folders (Windows), the same walk is made by paths, and what was opened is looked at a second time.

Whatever goes wrong is a `TryAgain`: words for the model that wrote the path.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from threading import Lock
from typing import Final
from uuid import uuid4

from ..agents.permissions.protected_paths import protected_name
from ..errors import TryAgain

LARGEST: Final = 20_000_000
"""Bytes of a file that is read, at most."""

_MOST_LINKS = 40
_MOST_FOLDERS = 100  # below each other: each of them is open on the way
_FROM_FOLDERS = {os.open, os.stat, os.readlink, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd
_SAFELY = sum(getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "NOCTTY", "BINARY"))
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _SAFELY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY
_replacing = Lock()  # so that of two calls at once the second sees what the first has done
_KINDS = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


class OpenDirectory:
    """An open folder below the root. What is done with a name is done in it, wherever its path leads by now."""

    __slots__ = ("_fd", "_path", "_root")

    def __init__(self, root: str, path: str, fd: int | None) -> None:
        self._root, self._path, self._fd = root, path, fd

    @classmethod
    def at_root(cls, root: str) -> OpenDirectory:
        """The root itself, open."""
        return cls(root, root, os.open(root, _FOLDER) if _FROM_FOLDERS else None)

    def status(self, name: str) -> os.stat_result | None:
        """What lies there, links not followed; None: nothing."""
        try:
            return os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def target(self, name: str) -> str:
        """What the link says."""
        return os.readlink(self._at(name), dir_fd=self._fd)

    def folder(self, name: str) -> OpenDirectory:
        """The folder of that name, open."""
        path = self._path if name == "." else os.path.join(self._path, name)  # noqa: PTH118  # a text is wanted
        if self._fd is not None:
            return OpenDirectory(self._root, path, os.open(name, _FOLDER, dir_fd=self._fd))
        self._look_again(path)
        return OpenDirectory(self._root, path, None)

    def make_folder(self, name: str) -> None:
        """Make a folder of that name, if it is not there."""
        with suppress(FileExistsError):
            os.mkdir(self._at(name), dir_fd=self._fd)

    def read(self, name: str, most: int) -> tuple[bytes, os.stat_result]:
        """The first `most` bytes of the file of that name, and what the file is."""
        fd = os.open(self._at(name), os.O_RDONLY | _SAFELY, dir_fd=self._fd)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError("it was exchanged while it was opened")
            if self._fd is None:
                self._look_again(self._at(name), status)
            return file.read(most), status

    def write(self, name: str, data: bytes, old: os.stat_result | None) -> None:
        """Put `data` in the place of the `old` file of that name, whole or not at all; it keeps the mode."""
        new = f".{uuid4().hex}.tmp"
        fd = os.open(self._at(new), _NEW, 0o666 if old is None else 0o600, dir_fd=self._fd)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                if old is not None and hasattr(os, "fchmod"):
                    os.fchmod(fd, old.st_mode & 0o777)  # what is new runs with nobody's rights
                file.flush()
                os.fsync(fd)
            with _replacing:
                if _version(self.status(name)) != _version(old):
                    raise OSError("somebody else changed it meanwhile; read it again")
                os.replace(self._at(new), self._at(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            os.unlink(self._at(new), dir_fd=self._fd)
            raise

    def names(self) -> list[tuple[str, int]]:
        """What lies in it: names and modes, links not followed, sorted by name."""
        with os.scandir(self._path if self._fd is None else self._fd) as entries:
            found = [(entry.name, _mode_of(entry)) for entry in entries]
        return sorted([(name, mode) for name, mode in found if mode is not None])

    def close(self) -> None:
        """Close it."""
        if self._fd is not None:
            os.close(self._fd)

    def _at(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self._path, name)  # noqa: PTH118  # a text is wanted

    def _look_again(self, path: str, opened: os.stat_result | None = None) -> None:
        """Raise where `path` leads out of the root, or is not what was opened."""
        real = os.path.realpath(path)
        if not PurePath(real).is_relative_to(self._root):
            raise OSError("it leads out of the working folder")
        if opened is not None and not os.path.samestat(opened, Path(real).stat()):
            raise OSError("it was exchanged while it was opened")


@dataclass(frozen=True, slots=True)
class SandboxPath:
    """Where a path leads: a `name` in an open `folder`; `path` is the way there from the root, links resolved.

    `status` is what lies there; None: nothing.
    """

    path: str
    folder: OpenDirectory
    name: str
    status: os.stat_result | None

    @property
    def is_folder(self) -> bool:
        """Whether a folder lies there."""
        return self.status is not None and stat.S_ISDIR(self.status.st_mode)

    def data(self) -> bytes:
        """The bytes of the file that lies there. Raises `TryAgain` where none does, or too large a one."""
        if self._file() is None:
            raise self.missing()
        data, status = self.folder.read(self.name, LARGEST + 1)
        if len(data) > LARGEST:
            raise TryAgain(
                f"{self.path} has {status.st_size:,} bytes, and only files of up to {LARGEST:,} are read; "
                "take what is needed out of it with a command"
            )
        return data

    def put(self, data: bytes) -> None:
        """Put a file with these bytes there, or in the place of the one there; it keeps its mode."""
        status = self._file()
        if status is not None and not status.st_mode & 0o222:
            raise TryAgain(f"{self.path} is write-protected")
        self.folder.write(self.name, data, status)

    def names(self) -> list[tuple[str, int]]:
        """What lies in the folder there: names and modes, sorted by name."""
        if not self.is_folder:
            raise TryAgain(f"{self.path} is no folder") if self.status else self.missing()
        folder = self.folder.folder(self.name)
        try:
            return folder.names()
        finally:
            folder.close()

    def missing(self) -> TryAgain:
        """The error of a place where nothing lies."""
        return _missing(self.path)

    def _file(self) -> os.stat_result | None:
        if self.status is not None and not stat.S_ISREG(self.status.st_mode):
            hint = "; list_files tells what is in it" if self.is_folder else ""
            raise TryAgain(f"{self.path} is {kind_of(self.status.st_mode)}, and no file{hint}")
        return self.status


class SandboxRoot:
    """A folder below which everything stays. Raises `ValueError` where there is none at `path`."""

    __slots__ = ("_names", "path")

    def __init__(self, path: str | os.PathLike[str] = ".") -> None:
        self.path: str = os.path.realpath(path)
        if not Path(self.path).is_dir():
            raise ValueError(f"there is no folder {os.fspath(path)!r}; the root of file tools must be one")
        self._names = (self.path, os.path.abspath(path))  # noqa: PTH100  # without resolving links

    @contextmanager
    def at(self, path: str, *, make_folders: bool = False) -> Generator[SandboxPath, None, None]:
        """The place that `path` leads to, while its folder is open. `make_folders`: those on the way are made.

        Raises `TryAgain` for what leads out, and for what the system refuses, in the `with` block too.
        """
        walk = _Walk(self, path, make_folders)
        try:
            yield walk.place()
        except (OSError, ValueError) as error:  # a ValueError: no system has names like this
            words = getattr(error, "strerror", None) or error
            raise TryAgain(f"{path[:200]!r} cannot be used: {words}") from error
        finally:
            walk.close()

    def steps(self, path: str) -> tuple[bool, list[str]]:
        """Whether `path` begins at the root, and its names, the first of them last. Raises `TryAgain` for others."""
        pure = PurePath(path)
        if pure.parts[:1] == ("~",):  # it means another place; nobody wants a folder of this name, least of all a shell
            raise leads_out(path)
        if not pure.anchor:
            return False, [*reversed(pure.parts)]
        for name in self._names:
            if pure.is_relative_to(name):
                return True, [*reversed(pure.relative_to(name).parts)]
        raise leads_out(path)


class _Walk:
    """The way to one place: the folders that are open, from the root on, their names, and the steps still ahead."""

    def __init__(self, root: SandboxRoot, path: str, make_folders: bool) -> None:
        self._root, self._path, self._make_folders = root, path, make_folders
        self._folders: list[OpenDirectory] = []
        self._names: list[str] = []
        self._links = 0

    def place(self) -> SandboxPath:
        """Walk to the end."""
        self._folders.append(OpenDirectory.at_root(self._root.path))
        _, ahead = self._root.steps(self._path)
        while ahead:
            name = ahead.pop()
            if name == "..":
                self._back()
                continue
            status = self._folders[-1].status(name)
            if status is not None and stat.S_ISLNK(status.st_mode):
                ahead += self._behind(name)
            elif ahead:
                self._into(name, status)
            else:
                return self._found(self._way_to(name), name, status)
        return self._found("/".join(self._names) or ".", ".", self._folders[-1].status("."))

    def close(self) -> None:
        """Close all folders."""
        while self._folders:
            self._folders.pop().close()

    def _found(self, path: str, name: str, status: os.stat_result | None) -> SandboxPath:
        if self._links and any(map(is_protected, path.split("/"))):
            raise TryAgain(f"{self._path!r} leads to what is protected")
        return SandboxPath(path, self._folders[-1], name, status)

    def _back(self) -> None:
        if not self._names:
            raise leads_out(self._path)
        self._names.pop()
        self._folders.pop().close()

    def _into(self, name: str, status: os.stat_result | None) -> None:
        if len(self._names) == _MOST_FOLDERS:
            raise TryAgain(f"{self._path[:200]!r} leads through more than {_MOST_FOLDERS} folders")
        if status is None and self._make_folders:
            self._folders[-1].make_folder(name)
        elif status is None:
            raise _missing(self._way_to(name))
        elif not stat.S_ISDIR(status.st_mode):
            raise TryAgain(f"{self._way_to(name)} is {kind_of(status.st_mode)}, and no folder")
        self._folders.append(self._folders[-1].folder(name))
        self._names.append(name)

    def _way_to(self, name: str) -> str:
        return "/".join([*self._names, name])

    def _behind(self, link: str) -> list[str]:
        self._links += 1
        if self._links > _MOST_LINKS:
            raise TryAgain(f"{self._path!r} leads through more than {_MOST_LINKS} links")
        try:
            is_absolute, steps = self._root.steps(self._folders[-1].target(link))
        except TryAgain:
            raise leads_out(self._path) from None  # without what the link says
        while is_absolute and self._names:
            self._back()
        return steps


def is_protected(name: str) -> bool:
    """Whether a file or folder of this name is one that no agent should look into."""
    return protected_name(name, braces=False) is not None


def leads_out(path: str) -> TryAgain:
    """The error of a path that leads out of the root."""
    return TryAgain(f"{path[:200]!r} leads out of the working folder; give a path in it, relative to it")


def _missing(path: str) -> TryAgain:
    return TryAgain(f"there is no {path}; list_files tells what there is")


def _version(status: os.stat_result | None) -> tuple[int, ...]:
    """What tells a file from the one that is there once somebody has changed it."""
    return () if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def _mode_of(entry: os.DirEntry[str]) -> int | None:
    """The mode of what lies in a folder; None where it has gone since the folder was read."""
    with suppress(FileNotFoundError):
        return entry.stat(follow_symlinks=False).st_mode
    return None


def kind_of(mode: int) -> str:
    """What lies where something has this mode, in words."""
    return next((words for is_one, words in _KINDS if is_one(mode)), "a device")
