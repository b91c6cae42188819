"""file_search.py: what is listed and found, what is left out, and patterns that would never end."""

from __future__ import annotations

import json
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.errors import TryAgain, TurnCancelled
from toolcast.toolbox import file_search
from toolcast.toolbox.file_access import file_tools
from toolcast.toolbox.file_search import MOST_FILES, MOST_HITS, FileFinder, glob_fits, pattern_fits
from toolcast.toolbox.sandbox_paths import SandboxRoot
from toolcast.tools.tool_context import ToolContext

Output = list[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small project."""
    files = {
        "README.md": "about one\n",
        "src/app.py": "import os\n\ndef one():\n    return ONE\n",
        "src/deep/far.ts": "const one = 1\r\n",
        ".env": "ONE=secret",
        ".git/config": "one",
        "node_modules/x/index.js": "one",
        ".ssh/known": "one",
        "photo.png": "\0one",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    (tmp_path / "empty").mkdir()
    return tmp_path


def asked(folder: Path, name: str, **arguments: Any) -> Output:
    tool = next(tool for tool in file_tools(folder) if tool.name == name)
    return tool.call(json.dumps(arguments)).content.splitlines()


def listed(folder: Path, **arguments: Any) -> Output:
    return asked(folder, "list_files", **arguments)


def found(folder: Path, pattern: str, **arguments: Any) -> Output:
    return asked(folder, "search_files", pattern=pattern, **arguments)


def names(folder: str | Path) -> list[str]:
    return sorted(entry.name for entry in Path(folder).iterdir())


# Listing.


def test_everything_is_listed_in_order(folder: Path) -> None:
    assert listed(folder) == [
        *(".env", ".git/", ".ssh/", "README.md", "empty/", "node_modules/", "photo.png", "src/app.py"),
        *("src/deep/far.ts", "[not searched: .git, .ssh, node_modules]"),
    ]


@pytest.mark.parametrize(
    ("path", "pattern", "files"),
    [
        ("src", "**/*", ["src/app.py", "src/deep/far.ts"]),
        ("src", "*", ["src/app.py", "src/deep/"]),
        (".", "*.md", ["README.md"]),
        (".", "**/*.{py,ts}", ["src/app.py", "src/deep/far.ts"]),
        (".", "src/*.py", ["src/app.py"]),
        (".", "./src/**", ["src/app.py", "src/deep/far.ts"]),
        ("src/deep/..", "app*", ["src/app.py"]),
        ("src/app.py", "**/*", ["src/app.py"]),
        ("node_modules", "*/*", ["node_modules/x/index.js"]),
        ("empty", "**/*", ["no files fit '**/*'"]),
        (".", "*.rs", ["no files fit '*.rs'; ** goes into the folders below"]),
    ],
)
def test_a_part_is_listed(folder: Path, path: str, pattern: str, files: Output) -> None:
    shown = [line for line in listed(folder, path=path, pattern=pattern) if not line.startswith("[")]
    assert shown == files


def test_links_are_listed_and_not_followed(folder: Path) -> None:
    (folder / "src" / "up").symlink_to("..")
    (folder / "src" / "out").symlink_to("/")
    assert listed(folder, path="src") == ["src/app.py", "src/deep/far.ts", "src/out@", "src/up@"]
    assert found(folder, "one", path="src", glob="*.ts") == ["src/deep/far.ts:1: const one = 1"]


def test_what_is_not_there_cannot_be_listed(folder: Path) -> None:
    with pytest.raises(TryAgain, match="there is no nothing"):
        listed(folder, path="nothing")
    with pytest.raises(TryAgain, match="leads out"):
        listed(folder, path="..")


def test_a_long_list_ends(folder: Path) -> None:
    names = [f"src/many/{number}" for number in range(1_000, 1_000 + MOST_FILES)]
    (folder / "src" / "many").mkdir()
    for name in names:
        (folder / name).touch()
    assert listed(folder, path="src/many") == names
    (folder / "src" / "many" / "z").touch()
    *files, note = listed(folder, path="src/many")
    assert files == names
    assert note == f"[there is more than these {MOST_FILES}; narrow it down to see the rest]"


def test_the_time_is_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_search, "_SECONDS", -1.0)
    assert listed(folder) == ["no files fit '**/*'", "[stopped after -1 seconds; narrow it down to see the rest]"]


def test_a_folder_that_goes_away_meanwhile_is_skipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = file_search.SandboxPath.names

    def gone(place: Any) -> Any:
        if place.path == "src/deep":
            raise OSError(13, "Permission denied")
        return look(place)

    monkeypatch.setattr(file_search.SandboxPath, "names", gone)
    assert listed(folder, path="src") == ["src/app.py", "src/deep/", "[skipped, as they cannot be read: 1]"]
    with pytest.raises(TryAgain, match="Permission denied"):
        listed(folder, path="src/deep")


# Searching.


def test_lines_are_found(folder: Path) -> None:
    assert found(folder, r"\bone\b") == [
        *("README.md:1: about one", "src/app.py:3: def one():", "src/deep/far.ts:1: const one = 1"),
        "[not searched: .git, .ssh, node_modules]",
        "[skipped, as protected: 1]",
        "[skipped, as no text, too large or not readable: 1]",
    ]


@pytest.mark.parametrize(
    ("pattern", "options", "lines"),
    [
        ("one", {"glob": "*.py"}, ["src/app.py:3: def one():"]),
        ("one", {"glob": "src/*"}, ["src/app.py:3: def one():"]),
        ("one", {"glob": "**/*.{ts,js}"}, ["src/deep/far.ts:1: const one = 1"]),
        (
            "one",
            {"path": "src/app.py", "ignore_case": True},
            ["src/app.py:3: def one():", "src/app.py:4:     return ONE"],
        ),
        ("^import", {"path": "src"}, ["src/app.py:1: import os"]),
        ("1$", {"path": "src"}, ["src/deep/far.ts:1: const one = 1"]),
        ("nothing", {"path": "src"}, ["nothing fits 'nothing'"]),
        ("one", {"path": "node_modules"}, ["node_modules/x/index.js:1: one"]),
    ],
)
def test_a_search_is_narrowed_down(folder: Path, pattern: str, options: dict[str, Any], lines: Output) -> None:
    assert [line for line in found(folder, pattern, **options) if line[0] != "["] == lines


@pytest.mark.parametrize("path", [".env", ".ssh", ".ssh/known"])
def test_protected_files_are_not_searched_even_when_they_are_named(folder: Path, path: str) -> None:
    assert found(folder, "ONE", path=path, ignore_case=True) == [
        "nothing fits 'ONE'",
        "[skipped, as protected: 1]",
    ]


def test_long_lines_are_cut(folder: Path) -> None:
    (folder / "src" / "a.min.js").write_text("one" + "x" * 198)
    (folder / "src" / "b.min.js").write_text("x" * 10_000 + "one")
    assert found(folder, "one", glob="*.min.js", path="src") == [f"src/a.min.js:1: one{'x' * 197}..."]


def test_many_hits_end_the_search(folder: Path) -> None:
    (folder / "src" / "b.txt").write_text("one\n" * 1_000)
    *lines, note = found(folder, "one", path="src/b.txt")
    assert lines[-1] == f"src/b.txt:{MOST_HITS}: one" and len(lines) == MOST_HITS
    assert note.startswith(f"[there is more than these {MOST_HITS};")


def test_a_search_that_is_cancelled_ends(folder: Path) -> None:
    context: ToolContext[Any] = ToolContext(tool="search_files")
    context.cancellation.cancel()
    with pytest.raises(TurnCancelled):
        FileFinder(SandboxRoot(folder)).search_files(context, "one")


def test_a_search_ends_within_a_file(folder: Path) -> None:
    """The cancellation is looked at every ten lines."""
    (folder / "b.txt").write_text("one\n" * 1_000)
    context: ToolContext[Any] = ToolContext(tool="search_files")
    checks: list[int] = []

    class Cancelling(ToolContext[Any]):
        def check(self) -> None:
            checks.append(1)
            if len(checks) == 3:
                context.cancellation.cancel()
            context.check()

    with pytest.raises(TurnCancelled):
        FileFinder(SandboxRoot(folder)).search_files(Cancelling(), "nothing", "b.txt")
    assert len(checks) == 3


# Patterns.


@pytest.mark.fault(141)
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(a*)*b$", "(.*a){12}$", r"(\w+\s?)*$x"])
def test_no_pattern_hangs(folder: Path, pattern: str) -> None:
    (folder / "a.txt").write_text("a" * 5_000 + "!\n")
    assert found(folder, pattern, path="a.txt")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?=a)", "look-around, including look-ahead and look-behind, is not supported"),
        ("function() {", "unclosed counted repetition"),
        ("[", "unclosed character class"),
        (r"(a)\1", "backreferences are not supported"),
        (r"\w{1000}", "Compiled regex exceeds size limit"),
        ("a" * 1_001, "longer than 1000 characters"),
    ],
)
def test_a_pattern_that_is_none(pattern: str, why: str) -> None:
    with pytest.raises(TryAgain, match=why) as raised:
        pattern_fits(pattern)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("glob", "fitting", "others"),
    [
        ("*", ["a", ".a", "a b"], ["a/b"]),
        ("**", ["a", "a/b", ""], []),
        ("**/*", ["a", "a/b/c"], []),
        ("**/a", ["a", "b/a", "b/c/a"], ["ba", "b/ca"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("[ab].c", ["a.c", "b.c"], ["c.c", "ab.c"]),
        ("[!ab].c", ["c.c"], ["a.c", "/.c"]),
        ("[^a-c]", ["d", "-"], ["b"]),
        ("[", ["["], []),
        ("{a,b*}.c", ["a.c", "b.c", "bc.c"], ["c.c"]),
        ("{a", ["{a"], []),
        ("a.b+(c)$^|\\", ["a.b+(c)$^|\\"], ["axb+(c)$^|\\"]),
        ("é\n", ["é\n"], ["é"]),
        ("[[&&~~]", ["[", "&", "~"], ["a"]),
    ],
)
def test_globs(glob: str, fitting: list[str], others: list[str]) -> None:
    fits = glob_fits(glob)
    assert [path for path in (*fitting, *others) if fits(path)] == fitting


@given(st.text("ab.*?[]!é{", max_size=12), st.text("ab.é[]{!", max_size=8))
def test_a_glob_in_one_folder_is_what_python_makes_of_it(glob: str, name: str) -> None:
    if not any(sign in glob for sign in ("**", "[]", "[!]")):  # which mean something else to Python
        assert glob_fits(glob)(name) == fnmatchcase(name, glob)


@given(st.text(max_size=30))
def test_any_text_is_a_glob(glob: str) -> None:
    try:
        assert glob_fits(glob)("a") in (True, False)
    except TryAgain as error:
        assert "cannot be read" in str(error)


def test_a_glob_that_is_too_long_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look for the end of each bracket takes the square of the length."""
    monkeypatch.setattr(file_search, "_translated", lambda glob: pytest.fail("it was taken apart"))
    with pytest.raises(TryAgain, match="the glob is longer than 1000 characters"):
        glob_fits("[" * 100_000)


def test_a_pattern_that_is_too_long() -> None:
    with pytest.raises(TryAgain, match="the pattern is longer than 1000 characters"):
        pattern_fits("a" * 1_001)


@pytest.mark.parametrize("glob", ["[z-a]", "\ud800"])
def test_a_glob_that_is_none(glob: str) -> None:
    with pytest.raises(TryAgain, match=r"the glob '.*' is invalid; use \*, \?"):
        glob_fits(glob)


def test_a_file_that_only_looks_like_a_wildcard(tmp_path: Path) -> None:
    (tmp_path / "a{b}*").write_text("one")
    assert found(tmp_path, "one") == ["a{b}*:1: one"]
    assert listed(tmp_path, pattern="a{b}*") == ["no files fit 'a{b}*'; ** goes into the folders below"]


def test_names_that_are_no_unicode(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("one")
    assert listed(tmp_path) == ["caf\ufffd.txt"]
    assert found(tmp_path, "one") == ["caf\ufffd.txt:1: one"]
