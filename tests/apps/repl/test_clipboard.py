"""The clipboard, with programs that stand in for those of a desktop."""

from __future__ import annotations

import io
from base64 import b64decode
from pathlib import Path

import pytest

from toolcast.apps.repl.clipboard import Clipboard
from toolcast.errors import ToolcastError

PNG = b"\x89PNG\r\n\x1a\nrest"


def program(folder: Path, name: str, script: str) -> None:
    """Write a program of this name."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def clipboard(folder: Path, terminal: io.StringIO | None = None, **variables: str) -> Clipboard:
    return Clipboard({"PATH": str(folder), **variables}, terminal)


@pytest.mark.parametrize(
    ("name", "variable"), [("pbcopy", "X"), ("wl-copy", "WAYLAND_DISPLAY"), ("xclip", "DISPLAY"), ("xsel", "DISPLAY")]
)
def test_a_text_goes_to_the_program_of_the_desktop(name: str, variable: str, tmp_path: Path) -> None:
    program(tmp_path, name, f"cat > {tmp_path}/copied")
    assert clipboard(tmp_path, **{variable: "1"}).copy("Grüße") == name
    assert (tmp_path / "copied").read_text(encoding="utf-8") == "Grüße"


def test_without_its_display_or_after_a_failure_the_next_way_is_used(tmp_path: Path) -> None:
    program(tmp_path, "xclip", "exit 0")
    program(tmp_path, "wl-copy", "exit 1")
    terminal = io.StringIO()
    assert clipboard(tmp_path, terminal, WAYLAND_DISPLAY="1").copy("text") == "the terminal"
    assert b64decode(terminal.getvalue().removeprefix("\x1b]52;c;").removesuffix("\x07")) == b"text"


def test_over_ssh_the_terminal_comes_first(tmp_path: Path) -> None:
    program(tmp_path, "pbcopy", "exit 0")
    assert clipboard(tmp_path, io.StringIO(), SSH_CONNECTION="x").copy("text") == "the terminal"
    assert clipboard(tmp_path, io.StringIO(), SSH_CONNECTION="x").copy("x" * 80_000) == "pbcopy"


def test_without_any_way_it_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ToolcastError, match="/export FILE"):
        clipboard(tmp_path).copy("text")


def test_an_image_is_read_by_the_first_program_that_has_one(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(PNG)
    program(tmp_path, "pngpaste", "echo no image")
    program(tmp_path, "xclip", f"cat {tmp_path}/image")
    assert clipboard(tmp_path).read_image() is None
    assert clipboard(tmp_path, DISPLAY=":0").read_image() == PNG


@pytest.mark.parametrize(("output", "image"), [(f"«data PNGf{PNG.hex()}»", PNG), ("«data TIFF00»", None), ("", None)])
def test_an_image_of_apples_script(output: str, image: bytes | None, tmp_path: Path) -> None:
    program(tmp_path, "osascript", f"echo '{output}'")
    assert clipboard(tmp_path).read_image() == image


def test_pasted_images_are_files_until_the_end(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(PNG)
    program(tmp_path, "pngpaste", f"cat {tmp_path}/image")
    used = clipboard(tmp_path)
    first, second = used.save_image(), used.save_image()
    assert first != second
    assert first.read_bytes() == PNG
    assert first.parent.stat().st_mode & 0o077 == 0
    used.close()
    assert not first.exists()
    program(tmp_path, "pngpaste", "exit 1")
    with pytest.raises(ToolcastError, match="the clipboard has no image"):
        used.save_image()
    missing = clipboard(tmp_path / "none")
    with pytest.raises(ToolcastError, match=r"install wl-clipboard \(Wayland\), xclip \(X11\) or pngpaste"):
        missing.save_image()
    missing.close()
