"""places.py: paths that stay below the root, walked from open folders and, where a system has none, by paths."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.process import Process
from toolcast.errors import TryAgain
from toolcast.toolbox import sandbox_paths
from toolcast.toolbox.sandbox_paths import LARGEST, OpenDirectory, SandboxRoot, is_protected, kind_of

INSIDE, OUTSIDE = b"inside", b"outside"


@pytest.fixture(params=[True, False], ids=["from folders", "by paths"])
def from_folders(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Both ways to walk."""
    monkeypatch.setattr(sandbox_paths, "_FROM_FOLDERS", request.param)
    return bool(request.param)


@pytest.fixture
def root(tmp_path: Path, from_folders: bool) -> SandboxRoot:
    """A root with a folder and a file, beside a file outside."""
    (tmp_path / "base" / "src").mkdir(parents=True)
    (tmp_path / "base" / "src" / "a.txt").write_bytes(INSIDE)
    (tmp_path / "secret.txt").write_bytes(OUTSIDE)
    return SandboxRoot(tmp_path / "base")


@pytest.fixture(autouse=True)
def _nothing_stays_open() -> Iterator[None]:
    before = names("/dev/fd")
    yield
    assert set(names("/dev/fd")) <= set(before)


def names(folder: str | Path) -> list[str]:
    return sorted(entry.name for entry in Path(folder).iterdir())


def read(root: SandboxRoot, path: str) -> bytes:
    with root.at(path) as place:
        return place.data()


def link(root: SandboxRoot, name: str, to: str | Path) -> None:
    (Path(root.path) / name).symlink_to(to)


@pytest.mark.parametrize("path", ["src/a.txt", "./src//a.txt", "src/../src/a.txt", "src/./a.txt", "{root}/src/a.txt"])
def test_what_is_below_is_read(root: SandboxRoot, path: str) -> None:
    assert read(root, path.format(root=root.path)) == INSIDE


@pytest.mark.fault(137)
@pytest.mark.parametrize(
    "path",
    [
        *("../secret.txt", "src/../../secret.txt", "..", "../base/src/a.txt", "{root}/../secret.txt"),
        *("/etc/hostname", "{root}x/a.txt", "/", "//etc/hostname"),
    ],
)
def test_what_is_not_below_is_refused(root: SandboxRoot, path: str) -> None:
    with pytest.raises(TryAgain, match=r"leads out of the working folder; give a path in it"):
        read(root, path.format(root=root.path))


def test_the_error_says_what_was_asked_for_and_not_where_a_link_leads(root: SandboxRoot) -> None:
    link(root, "out", "../secret.txt")
    with pytest.raises(TryAgain) as raised:
        read(root, "out")
    assert str(raised.value) == "'out' leads out of the working folder; give a path in it, relative to it"
    assert raised.value.__cause__ is None


@pytest.mark.fault(137)
@pytest.mark.parametrize("to", ["../secret.txt", "../..", "src/../../secret.txt", "{outside}", "/etc/hostname"])
@pytest.mark.parametrize("behind", ["", "/x"])
def test_links_do_not_lead_out(root: SandboxRoot, tmp_path: Path, to: str, behind: str) -> None:
    link(root, "out", to.format(outside=tmp_path / "secret.txt"))
    with pytest.raises(TryAgain, match="leads out"):
        read(root, f"out{behind}")


@pytest.mark.parametrize(
    ("to", "path"),
    [
        ("src", "way/a.txt"),
        ("src/a.txt", "way"),
        ("{root}/src", "way/a.txt"),
        ("{root}", "way/src/a.txt"),
        ("./src/../src", "way/a.txt"),
    ],
)
def test_links_that_stay_below_are_followed(root: SandboxRoot, to: str, path: str) -> None:
    link(root, "way", to.format(root=root.path))
    with root.at(path) as place:
        assert (place.path, place.data()) == ("src/a.txt", INSIDE)


def test_an_absolute_link_begins_at_the_root(root: SandboxRoot) -> None:
    link(root, "src/deep", f"{root.path}/src/a.txt")
    assert read(root, "src/deep") == INSIDE


def test_links_that_lead_to_each_other_end(root: SandboxRoot) -> None:
    link(root, "one", "two")
    link(root, "two", "one")
    with pytest.raises(TryAgain, match="through more than 40 links"):
        read(root, "one")


@pytest.mark.parametrize("path", ["way", "way/known", "deep/way"])
def test_links_do_not_lead_to_what_is_protected(root: SandboxRoot, path: str) -> None:
    """The link may have been another one when the path was allowed."""
    for folder in (".ssh", "deep"):
        Path(root.path, folder).mkdir()
    link(root, "way", ".ssh")
    link(root, "deep/way", "../.env")
    with pytest.raises(TryAgain, match=f"'{path}' leads to a protected name"):
        read(root, path)


def test_a_protected_file_that_is_named_is_the_affair_of_permissions(root: SandboxRoot) -> None:
    Path(root.path, ".env").write_bytes(INSIDE)
    assert read(root, ".env") == INSIDE


def test_protected_names() -> None:
    assert is_protected(".env") and is_protected("server.key") and is_protected(".SSH")
    assert not is_protected(".env.example") and not is_protected("environment.py")


def test_a_root_that_is_a_link_may_be_named_either_way(tmp_path: Path, root: SandboxRoot) -> None:
    (tmp_path / "linked").symlink_to("base")
    linked = SandboxRoot(tmp_path / "linked")
    assert linked.path == root.path
    assert read(linked, f"{tmp_path}/linked/src/a.txt") == read(linked, f"{root.path}/src/a.txt") == INSIDE


@pytest.mark.parametrize("path", [".", "", "src/..", "{root}", "way"])
def test_the_root_itself_is_a_place(root: SandboxRoot, path: str) -> None:
    link(root, "way", ".")
    with root.at(path.format(root=root.path)) as place:
        assert (place.path, place.is_folder) == (".", True)
        assert [name for name, _ in place.names()] == ["src", "way"]


def test_a_root_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("nothing", "file"):
        with pytest.raises(ValueError, match="there is no folder"):
            SandboxRoot(tmp_path / name)


def test_a_root_that_is_gone(tmp_path: Path, from_folders: bool) -> None:
    (tmp_path / "base").mkdir()
    root = SandboxRoot(tmp_path / "base")
    (tmp_path / "base").rmdir()
    with pytest.raises(TryAgain, match=r"No such file|there is no"):
        read(root, "a/b")


@pytest.mark.parametrize("path", ["nothing", "nothing/below", "src/nothing", "src/nothing/.."])
def test_what_is_not_there(root: SandboxRoot, path: str) -> None:
    with pytest.raises(TryAgain, match=r"there is no (src/)?nothing; list_files shows the files"):
        read(root, path)


@pytest.mark.parametrize("path", ["a\0b", "\udcff" * 3 + "\ud800", "x" * 300])
def test_what_the_system_refuses(root: SandboxRoot, path: str) -> None:
    with pytest.raises(TryAgain, match="cannot be used: "):
        read(root, path)


def test_folders_are_no_files(root: SandboxRoot) -> None:
    for path in ("src/a.txt/below", "src/a.txt/.."):
        with pytest.raises(TryAgain, match=r"src/a.txt is a file, and no folder"):
            read(root, path)
    with pytest.raises(TryAgain, match="src is a folder, and no file"):
        read(root, "src")
    with root.at("src") as place, pytest.raises(TryAgain, match="src is a folder"):
        place.put(b"")
    with root.at("src/a.txt") as place, pytest.raises(TryAgain, match="no folder"):
        place.names()
    with root.at("src/b.txt") as place, pytest.raises(TryAgain, match="there is no"):
        place.names()


def test_pipes_and_sockets_are_not_opened(root: SandboxRoot) -> None:
    os.mkfifo(f"{root.path}/pipe")  # opening it would block until there is a writer
    with socket.socket(socket.AF_UNIX) as bound:
        here = Path.cwd()
        os.chdir(root.path)  # the path of a socket must be short
        bound.bind("socket")
        os.chdir(here)
        for name in ("pipe", "socket"):
            with root.at(name) as place:
                with pytest.raises(TryAgain, match=f"{name} is a {name}, and no file"):
                    place.data()
                with pytest.raises(TryAgain, match="and no file"):
                    place.put(b"")


def test_kinds() -> None:
    assert kind_of(stat.S_IFCHR) == kind_of(stat.S_IFBLK) == "a device"
    assert kind_of(stat.S_IFLNK) == "a link" and kind_of(stat.S_IFREG | 0o644) == "a file"
    with pytest.raises(TryAgain, match="null is a device, and no file"), SandboxRoot("/dev").at("null") as place:
        place.data()


@pytest.mark.fault(137)
def test_a_large_file_is_refused(root: SandboxRoot) -> None:
    os.truncate(f"{root.path}/src/a.txt", LARGEST + 1)
    with pytest.raises(TryAgain, match=f"src/a.txt has {LARGEST + 1:,} bytes, and only files of up to {LARGEST:,} are"):
        read(root, "src/a.txt")
    os.truncate(f"{root.path}/src/a.txt", LARGEST)
    assert len(read(root, "src/a.txt")) == LARGEST


# Writing.


def put(root: SandboxRoot, path: str, data: bytes) -> str:
    with root.at(path, make_folders=True) as place:
        place.put(data)
        return place.path


def test_a_file_is_made_with_its_folders(root: SandboxRoot) -> None:
    assert put(root, "new/deep/a.txt", b"1") == "new/deep/a.txt"
    assert put(root, "new/deep/b.txt", b"2") == "new/deep/b.txt"
    assert read(root, "new/deep/a.txt") == b"1" and read(root, "new/deep/b.txt") == b"2"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(Path(root.path, "new/deep/a.txt").stat().st_mode) == 0o666 & ~umask


def test_a_folder_that_someone_else_makes_first(root: SandboxRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    make = OpenDirectory.make_folder

    def later(folder: OpenDirectory, name: str) -> None:
        make(folder, name)
        make(folder, name)

    monkeypatch.setattr(OpenDirectory, "make_folder", later)
    assert put(root, "new/a.txt", b"1") == "new/a.txt"


def test_a_file_is_replaced_and_keeps_its_mode(root: SandboxRoot) -> None:
    file = Path(root.path, "src/a.txt")
    file.chmod(0o751)
    link(root, "way", "src/a.txt")
    assert put(root, "way", b"new") == "src/a.txt"
    assert file.read_bytes() == b"new" and stat.S_IMODE(file.stat().st_mode) == 0o751
    assert names(file.parent) == ["a.txt"]


def test_without_modes_to_keep(root: SandboxRoot, process: Process) -> None:
    process.lacks("fchmod")
    put(root, "src/a.txt", b"new")
    assert read(root, "src/a.txt") == b"new"


def test_a_write_protected_file_stays(root: SandboxRoot) -> None:
    Path(root.path, "src/a.txt").chmod(0o444)
    with pytest.raises(TryAgain, match=r"src/a.txt is write-protected"):
        put(root, "src/a.txt", b"new")
    assert read(root, "src/a.txt") == INSIDE


def test_a_link_to_nothing_yet_is_written_through_if_it_stays_below(root: SandboxRoot, tmp_path: Path) -> None:
    link(root, "later", "src/later.txt")
    link(root, "out", "../made.txt")
    assert put(root, "later", b"1") == "src/later.txt"
    with pytest.raises(TryAgain, match="leads out"):
        put(root, "out", b"1")
    assert names(tmp_path) == ["base", "secret.txt"]


def test_a_file_that_cannot_be_written_is_left_as_it_was(root: SandboxRoot, process: Process) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    process.call("fsync", full)
    with pytest.raises(TryAgain, match=r"'src/a.txt' cannot be used: No space left on device"):
        put(root, "src/a.txt", b"new")
    assert read(root, "src/a.txt") == INSIDE and names(f"{root.path}/src") == ["a.txt"]


# Who changes what lies there in between.


def between(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[], object]) -> None:
    """Have something changed after it was looked at, and before it is opened."""
    look, left = OpenDirectory.status, [change]

    def status(folder: OpenDirectory, looked_at: str) -> Any:
        found = look(folder, looked_at)
        if looked_at == name and left:
            left.pop()()
        return found

    monkeypatch.setattr(OpenDirectory, "status", status)


@pytest.mark.parametrize("to", ["..", "/etc"])
def test_a_folder_exchanged_for_a_link(root: SandboxRoot, monkeypatch: pytest.MonkeyPatch, to: str) -> None:
    def exchange() -> None:
        Path(root.path, "src").rename(f"{root.path}/old")
        link(root, "src", to)

    between(monkeypatch, "src", exchange)
    with pytest.raises(TryAgain, match="cannot be used"):
        read(root, "src/secret.txt")


@pytest.mark.fault(137)
def test_a_file_exchanged_for_a_link(root: SandboxRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    def exchange() -> None:
        Path(root.path, "src/a.txt").unlink()
        link(root, "src/a.txt", "../../secret.txt")

    between(monkeypatch, "a.txt", exchange)
    with pytest.raises(TryAgain, match="cannot be used"):
        read(root, "src/a.txt")


def test_a_file_exchanged_for_a_link_where_opening_follows_links(
    root: SandboxRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_paths, "_FROM_FOLDERS", False)
    monkeypatch.setattr(sandbox_paths, "_SAFELY", 0)
    test_a_file_exchanged_for_a_link(root, monkeypatch)


def test_what_was_opened_by_its_path_is_looked_at_again(root: SandboxRoot, tmp_path: Path) -> None:
    folder, src = OpenDirectory(root.path, root.path, None), Path(root.path, "src")
    opened = (src / "a.txt").stat()
    (src / "a.txt").rename(src / "b.txt")
    (src / "a.txt").write_bytes(INSIDE)
    with pytest.raises(OSError, match="replaced"):
        folder._look_again(f"{root.path}/src/a.txt", opened)
    with pytest.raises(OSError, match="leads out"):
        folder._look_again(str(tmp_path / "secret.txt"))


def test_a_file_exchanged_for_a_pipe_does_not_hang(root: SandboxRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    def exchange() -> None:
        Path(root.path, "src/a.txt").unlink()
        os.mkfifo(f"{root.path}/src/a.txt")

    between(monkeypatch, "a.txt", exchange)
    with pytest.raises(TryAgain, match="replaced while it was opened"):
        read(root, "src/a.txt")


def test_a_folder_moved_away_does_not_take_the_file_elsewhere(
    root: SandboxRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was opened stays what it was: the file is found in the folder that was looked at."""

    def exchange() -> None:
        Path(root.path, "src").rename(f"{root.path}/moved")
        link(root, "src", "..")

    if sandbox_paths._FROM_FOLDERS:
        between(monkeypatch, "a.txt", exchange)
        assert read(root, "src/a.txt") == INSIDE


# Whatever the path and the links are.

NAMES = ("a", "b", "src", "link", "..", ".", "")
texts = st.lists(st.sampled_from(NAMES), min_size=1, max_size=5).map("/".join)
targets = st.one_of(texts, texts.map("{top}/base/%s".__mod__), texts.map("{top}/%s".__mod__))
links_at = st.sampled_from(("link", "b", "src/link", "src/b", "src/deep/a"))


@pytest.mark.fault(137)
@given(st.dictionaries(links_at, targets), st.lists(targets, min_size=1, max_size=5), st.booleans())
def test_no_path_leads_out(links: dict[str, str], paths: list[str], from_folders: bool) -> None:
    with tempfile.TemporaryDirectory() as top, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox_paths, "_FROM_FOLDERS", from_folders)
        top = os.path.realpath(top)
        for folder, held in (("base", INSIDE), ("base/src", INSIDE), ("base/src/deep", b""), ("src", OUTSIDE)):
            Path(top, folder).mkdir()
            if held:
                Path(top, folder, "a").write_bytes(held)
        for name, to in links.items():
            Path(top, "base", name).symlink_to(to.replace("{top}", top) or ".")
        root = SandboxRoot(f"{top}/base")
        for path in (path.replace("{top}", top) for path in paths):
            assert outcome(read, root, path) in (INSIDE, b"", None)
            if not any(".." in text or top in text or "{top}" in text for text in (path, *links.values())):
                real = Path(root.path, path)  # nothing leads out here: what is there is found
                assert outcome(read, root, path) == (real.read_bytes() if is_file(real) else None)
            outcome(put, root, path, b"")
        assert names(top) == ["base", "src"] and names(f"{top}/src") == ["a"]
        assert Path(top, "src", "a").read_bytes() == OUTSIDE


def outcome(do: Callable[..., Any], *given: Any) -> Any:
    try:
        return do(*given)
    except TryAgain:
        return None


def is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # links that lead to each other
        return False
