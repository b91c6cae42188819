"""The person's own editor on a text."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from toolcast import ToolcastError
from toolcast.apps.repl import text_editor
from toolcast.apps.repl.text_editor import edit_in_editor, editor_command


@pytest.fixture
def editor(tmp_path: Path) -> Callable[[str], str]:
    """Make an editor of these lines of Python, in which `file` is the path; it records path, mode and text."""

    def make(script: str) -> str:
        program = tmp_path / "an editor"
        program.write_text(
            f"#!{sys.executable}\nimport sys, os\nfile = sys.argv[-1]\n"
            f"seen = open({str(tmp_path / 'seen')!r}, 'w')\n"
            "seen.write(f'{file}\\n{os.stat(file).st_mode}\\n{sys.argv[1:-1]}')\nseen.close()\n"
            f"{script}\n"
        )
        program.chmod(0o700)
        return f"'{program}' --wait"

    return make


def test_the_edited_text(editor: Callable[[str], str], tmp_path: Path) -> None:
    command = editor(
        "text = open(file, encoding='utf-8').read(); open(file, 'w', encoding='utf-8').write(text + 'é\\n')"
    )
    assert edit_in_editor(command, "one\n", ".py") == "one\né\n"
    path, mode, arguments = (tmp_path / "seen").read_text().split("\n")
    assert path.startswith(gettempdir()) and path.endswith(".py")
    assert stat.S_IMODE(int(mode)) == 0o600
    assert arguments == "['--wait']"
    assert not Path(path).exists()


@pytest.mark.parametrize(
    ("text", "added", "saved"),
    [("ls", "\n", "ls"), ("ls\n", "", "ls\n"), ("a", "b", "ab"), ("a\n", "\n", "a\n\n"), ("x\r\ny", "\n", "x\r\ny")],
)
def test_a_line_break_that_the_editor_adds_is_none(
    editor: Callable[[str], str], text: str, added: str, saved: str
) -> None:
    command = editor(f"open(file, 'a').write({added!r})")
    assert edit_in_editor(command, text, ".sh") == saved


def test_half_of_a_surrogate_pair_is_kept(editor: Callable[[str], str]) -> None:
    assert edit_in_editor(editor("pass"), "\ud83d", ".txt") == "\ud83d"


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("sys.exit(3)", "ended with exit code 3; the text is unchanged"),
        ("os.remove(file)", "No such file or directory"),
        ("open(file, 'wb').write(b'\\xff')", "invalid start byte"),
    ],
)
def test_an_editor_that_fails(editor: Callable[[str], str], script: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(ToolcastError, match=error):
        edit_in_editor(editor(script), "x", ".txt")
    assert not Path((tmp_path / "seen").read_text().split("\n")[0]).exists()


@pytest.mark.parametrize(("command", "error"), [("/no/such/editor", "No such file"), ("'", "No closing quotation")])
def test_an_editor_that_is_none(command: str, error: str) -> None:
    with pytest.raises(ToolcastError, match=f"{error}.*; set VISUAL or EDITOR"):
        edit_in_editor(command, "x", ".txt")


def test_ctrl_c_belongs_to_the_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    class Process:
        def __init__(self, command: list[str]) -> None:
            self.waits = iter([KeyboardInterrupt(), 0])

        def wait(self) -> Any:
            result = next(self.waits)
            if isinstance(result, BaseException):
                raise result
            return result

    monkeypatch.setattr(text_editor.subprocess, "Popen", Process)
    assert edit_in_editor("editor", "x", ".txt") == "x"


def test_the_command_of_the_environment() -> None:
    assert editor_command({"VISUAL": "code --wait", "EDITOR": "vi"}) == "code --wait"
    assert editor_command({"VISUAL": " ", "EDITOR": "vi"}) == "vi"
    assert editor_command({}) is None
