"""Paths that cannot leave a folder, whatever it contains, even while other processes change it.

Strategy: a path is resolved here, name by name, and not by the system. Each folder is opened relative to the one before
it, and without following links: those are read, and their targets resolved like the rest. `..` returns to the folder
before. So nothing above the root is ever opened, and a link that another process puts in the way does not lead out
either: an open folder stays the same.

    a name          a file, a folder or nothing: the next step, or the end
    a link          its text takes its place; at most 40 in a path
    `..`            the folder before; at the root: refused
    an absolute     from the root on if it begins with the root's path, otherwise refused

`Permissions` check the path for protected names (protected_paths.py) before the call. A link may have changed since, so
one that leads to such a name is refused here.

Only files and folders are opened: opening a pipe may block, opening a device may have effects. On systems that cannot
open relative to a folder (Windows), the same steps use paths, and the opened file is checked again.

Every failure is a `TryAgain`: a message to the model that wrote the path.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from threading import Lock
from typing import Final
from uuid import uuid4

from ..agents.permissions.protected_paths import protected_name
from ..errors import TryAgain
from ..lazy.lazy_dataclasses import dataclass

LARGEST: Final = 20_000_000
"""The maximum size of a file that is read, in bytes."""

_MOST_LINKS = 40
_MOST_FOLDERS = 100  # nested: each of them is open
_FROM_FOLDERS = {os.open, os.stat, os.readlink, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd
_SAFELY = sum(getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "NOCTTY", "BINARY"))
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _SAFELY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY
_replacing = Lock()  # so that of two concurrent calls the second sees the change of the first
_KINDS = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


class OpenDirectory:
    """An open folder below the root. Operations by name take place in it, even if its path changes."""

    __slots__ = ("_fd", "_path", "_root")

    def __init__(self, root: str, path: str, fd: int | None) -> None:
        self._root, self._path, self._fd = root, path, fd

    @classmethod
    def at_root(cls, root: str) -> OpenDirectory:
        """Open the root itself."""
        return cls(root, root, os.open(root, _FOLDER) if _FROM_FOLDERS else None)

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of `name`, links not followed; None if it does not exist."""
        try:
            return os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def target(self, name: str) -> str:
        """Return the target of a link."""
        return os.readlink(self._at(name), dir_fd=self._fd)

    def folder(self, name: str) -> OpenDirectory:
        """Open a folder in this one."""
        path = self._path if name == "." else os.path.join(self._path, name)  # noqa: PTH118  # a text is wanted
        if self._fd is not None:
            return OpenDirectory(self._root, path, os.open(name, _FOLDER, dir_fd=self._fd))
        self._look_again(path)
        return OpenDirectory(self._root, path, None)

    def make_folder(self, name: str) -> None:
        """Create a folder in this one, unless it exists."""
        with suppress(FileExistsError):
            os.mkdir(self._at(name), dir_fd=self._fd)

    def read(self, name: str, most: int) -> tuple[bytes, os.stat_result]:
        """Return the first `most` bytes of a file, and its status."""
        fd = os.open(self._at(name), os.O_RDONLY | _SAFELY, dir_fd=self._fd)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError("it was replaced while it was opened")
            if self._fd is None:
                self._look_again(self._at(name), status)
            return file.read(most), status

    def write(self, name: str, data: bytes, old: os.stat_result | None) -> None:
        """Replace the `old` file with `data` atomically, and keep its mode."""
        new = f".{uuid4().hex}.tmp"
        fd = os.open(self._at(new), _NEW, 0o666 if old is None else 0o600, dir_fd=self._fd)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                if old is not None and hasattr(os, "fchmod"):
                    os.fchmod(fd, old.st_mode & 0o777)  # without setuid and setgid bits
                file.flush()
                os.fsync(fd)
            with _replacing:
                if _version(self.status(name)) != _version(old):
                    raise OSError("it was changed by another process; read it again")
                os.replace(self._at(new), self._at(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            os.unlink(self._at(new), dir_fd=self._fd)
            raise

    def names(self) -> list[tuple[str, int]]:
        """Return the names and modes of its entries, links not followed, sorted by name."""
        with os.scandir(self._path if self._fd is None else self._fd) as entries:
            found = [(entry.name, _mode_of(entry)) for entry in entries]
        return sorted([(name, mode) for name, mode in found if mode is not None])

    def close(self) -> None:
        """Close the folder."""
        if self._fd is not None:
            os.close(self._fd)

    def _at(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self._path, name)  # noqa: PTH118  # a text is wanted

    def _look_again(self, path: str, opened: os.stat_result | None = None) -> None:
        """Raise `OSError` if `path` leads out of the root, or is not the opened file."""
        real = os.path.realpath(path)
        if not PurePath(real).is_relative_to(self._root):
            raise OSError("it leads out of the working folder")
        if opened is not None and not os.path.samestat(opened, Path(real).stat()):
            raise OSError("it was replaced while it was opened")


@dataclass(frozen=True, slots=True)
class SandboxPath:
    """A resolved path: a `name` in an open `folder`; `path` is relative to the root, links resolved.

    `status` is None where nothing exists.
    """

    path: str
    folder: OpenDirectory
    name: str
    status: os.stat_result | None

    @property
    def is_folder(self) -> bool:
        """True if it is a folder."""
        return self.status is not None and stat.S_ISDIR(self.status.st_mode)

    def data(self) -> bytes:
        """Return the bytes of the file. Raises `TryAgain` if there is none, or it is too large."""
        if self._file() is None:
            raise self.missing()
        data, status = self.folder.read(self.name, LARGEST + 1)
        if len(data) > LARGEST:
            raise TryAgain(
                f"{self.path} has {status.st_size:,} bytes, and only files of up to {LARGEST:,} are read; "
                "extract the relevant part with a command"
            )
        return data

    def put(self, data: bytes) -> None:
        """Create or replace the file; a replaced one keeps its mode."""
        status = self._file()
        if status is not None and not status.st_mode & 0o222:
            raise TryAgain(f"{self.path} is write-protected")
        self.folder.write(self.name, data, status)

    def names(self) -> list[tuple[str, int]]:
        """Return the names and modes of the folder's entries, sorted by name."""
        if not self.is_folder:
            raise TryAgain(f"{self.path} is no folder") if self.status else self.missing()
        folder = self.folder.folder(self.name)
        try:
            return folder.names()
        finally:
            folder.close()

    def missing(self) -> TryAgain:
        """Return the error of a path at which nothing exists."""
        return _missing(self.path)

    def _file(self) -> os.stat_result | None:
        if self.status is not None and not stat.S_ISREG(self.status.st_mode):
            hint = "; list_files shows its contents" if self.is_folder else ""
            raise TryAgain(f"{self.path} is {kind_of(self.status.st_mode)}, and no file{hint}")
        return self.status


class SandboxRoot:
    """A folder that paths cannot leave. Raises `ValueError` if `path` is no folder."""

    __slots__ = ("_names", "path")

    def __init__(self, path: str | os.PathLike[str] = ".") -> None:
        self.path: str = os.path.realpath(path)
        if not Path(self.path).is_dir():
            raise ValueError(f"there is no folder {os.fspath(path)!r}; the root of file tools must be one")
        self._names = (self.path, os.path.abspath(path))  # noqa: PTH100  # without resolving links

    @contextmanager
    def at(self, path: str, *, make_folders: bool = False) -> Generator[SandboxPath, None, None]:
        """Resolve `path`, with its folder open in the `with` block. `make_folders`: missing folders are created.

        Raises `TryAgain` if the path leads out, and for errors of the system, also those in the `with` block.
        """
        walk = _Walk(self, path, make_folders)
        try:
            yield walk.place()
        except (OSError, ValueError) as error:  # a ValueError: no system has names like this
            reason = getattr(error, "strerror", None) or error
            raise TryAgain(f"{path[:200]!r} cannot be used: {reason}") from error
        finally:
            walk.close()

    def steps(self, path: str) -> tuple[bool, list[str]]:
        """Return whether `path` is absolute, and its names below the root, reversed. Raises `TryAgain` outside."""
        pure = PurePath(path)
        if pure.parts[:1] == ("~",):  # shells expand it: a folder of this name would be a trap
            raise leads_out(path)
        if not pure.anchor:
            return False, [*reversed(pure.parts)]
        for name in self._names:
            if pure.is_relative_to(name):
                return True, [*reversed(pure.relative_to(name).parts)]
        raise leads_out(path)


class _Walk:
    """The resolution of one path: the open folders from the root on, and their names."""

    def __init__(self, root: SandboxRoot, path: str, make_folders: bool) -> None:
        self._root, self._path, self._make_folders = root, path, make_folders
        self._folders: list[OpenDirectory] = []
        self._names: list[str] = []
        self._links = 0

    def place(self) -> SandboxPath:
        """Resolve the path to its end."""
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
            raise TryAgain(f"{self._path!r} leads to a protected name")
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
            raise leads_out(self._path) from None  # without the target of the link
        while is_absolute and self._names:
            self._back()
        return steps


def is_protected(name: str) -> bool:
    """Return whether this is the name of a protected file or folder."""
    return protected_name(name, braces=False) is not None


def leads_out(path: str) -> TryAgain:
    """Return the error of a path that leads out of the root."""
    return TryAgain(f"{path[:200]!r} leads out of the working folder; give a path in it, relative to it")


def _missing(path: str) -> TryAgain:
    return TryAgain(f"there is no {path}; list_files shows the files")


def _version(status: os.stat_result | None) -> tuple[int, ...]:
    """Return values that change whenever the file changes."""
    return () if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def _mode_of(entry: os.DirEntry[str]) -> int | None:
    """Return the mode of an entry; None if it was deleted since the folder was read."""
    with suppress(FileNotFoundError):
        return entry.stat(follow_symlinks=False).st_mode
    return None


def kind_of(mode: int) -> str:
    """Return the kind of file with this mode, as text."""
    return next((kind for is_one, kind in _KINDS if is_one(mode)), "a device")
