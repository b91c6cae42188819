"""Pictures of terminals show what the terminal shows."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from docs.pages import ROOT


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    """The script."""
    spec = importlib.util.spec_from_file_location("terminal_picture", ROOT / "docs" / "terminal_picture.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(svg: str) -> dict[str, dict[str, str]]:
    """Return the attributes of each text of the picture."""
    root = ElementTree.fromstring(svg)
    return {element.text or "": element.attrib for element in root.iter("{http://www.w3.org/2000/svg}text")}


@pytest.mark.parametrize(
    ("code", "classes"),
    [
        ("1", "default bold"),
        ("2", "default dim"),
        ("3", "default italics"),
        ("4;9", "default underscore strikethrough"),
        ("2;31", "red dim"),
        ("95", "brightmagenta"),
        ("38;5;2", "green"),
        ("7", "background"),
        ("7;41", "red"),
    ],
)
def test_looks_are_classes(drawing: ModuleType, code: str, classes: str) -> None:
    svg = drawing.picture(drawing.emulate(f"\x1b[{code}mword\x1b[0m rest"), palette="dark")
    assert texts(svg)["word"]["class"] == classes
    assert texts(svg)["rest"]["class"] == "default"


def test_the_end_of_bold_and_dim_ends_both(drawing: ModuleType) -> None:
    found = texts(drawing.picture(drawing.emulate("\x1b[2mdim\x1b[22m\x1b[3mslanted")))
    assert found["dim"]["class"] == "default dim"
    assert found["slanted"]["class"] == "default italics"


def test_other_colours_are_themselves(drawing: ModuleType) -> None:
    found = texts(drawing.picture(drawing.emulate("\x1b[38;2;2;5;22mrgb\x1b[38;5;208mindexed\x1b[38m")))
    assert (found["rgb"]["fill"], found["indexed"]["fill"]) == ("#020516", "#ff8700")


def test_backgrounds_are_drawn(drawing: ModuleType) -> None:
    svg = drawing.picture(drawing.emulate("\x1b[7mreversed\x1b[0m \x1b[41m日本\x1b[0m \x1b[48;2;1;2;3mx"))
    backgrounds = [line for line in svg.splitlines() if line.startswith("<rect") and "frame" not in line]
    assert [re.sub('.*width="([^"]*)".* (class|fill)=', r"\1 ", line) for line in backgrounds] == [
        f'{8 * drawing.CELL:.1f} "reversed"/>',
        f'{4 * drawing.CELL:.1f} "red"/>',
        f'{drawing.CELL:.1f} "#010203"/>',
    ]


def test_every_character_is_in_its_column(drawing: ModuleType) -> None:
    found = texts(drawing.picture(drawing.emulate("a日b  <c>\n  \x1b[1mindented")))
    at = {text: (float(each["x"]) - drawing.MARGIN) / drawing.CELL for text, each in found.items()}
    assert {text: round(column) for text, column in at.items()} == {"a": 0, "日": 1, "b  <c>": 3, "indented": 2}
    assert float(found["b  <c>"]["textLength"]) == pytest.approx(6 * drawing.CELL, abs=0.1)
    assert float(found["日"]["textLength"]) == pytest.approx(2 * drawing.CELL, abs=0.1)
    assert int(found["indented"]["y"]) - int(found["a"]["y"]) == drawing.LINE


def test_the_picture_has_a_title_and_ends_with_the_text(drawing: ModuleType) -> None:
    svg = drawing.picture(drawing.emulate("one\n\ntwo\n\n\n"), "A & B")
    root = ElementTree.fromstring(svg)
    assert root.findtext("{http://www.w3.org/2000/svg}title") == "A & B"
    assert int(root.attrib["height"]) == 3 * drawing.LINE + 2 * drawing.MARGIN


def test_the_cursor_is_drawn_unless_it_is_hidden(drawing: ModuleType) -> None:
    assert 'opacity="0.5"' in drawing.picture(drawing.emulate("> "), cursor=True)
    assert 'opacity="0.5"' not in drawing.picture(drawing.emulate("> "))
    assert 'opacity="0.5"' not in drawing.picture(drawing.emulate("> \x1b[?25l"), cursor=True)


def test_the_colours_are_those_of_the_palette_or_of_the_viewer(drawing: ModuleType) -> None:
    screen = drawing.emulate("x")
    frames = {palette: f".frame {{ fill: {colours['background']};" for palette, colours in drawing.COLOURS.items()}
    light, dark = frames["light"], frames["dark"]
    assert light in drawing.picture(screen, palette="light") and dark not in drawing.picture(screen, palette="light")
    assert dark in drawing.picture(screen, palette="dark") and light not in drawing.picture(screen, palette="dark")
    both = drawing.picture(screen)
    assert both.index(light) < both.index("prefers-color-scheme: dark") < both.index(dark)


def test_the_command_draws_a_recording(drawing: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_bytes(b"\x1b[32m" + b"green " * 4)
    drawing.main([f"{tmp_path}/out.txt", f"{tmp_path}/out.svg", "--columns", "12", "--palette", "light"])
    assert texts((tmp_path / "out.svg").read_text())["green green"]["class"] == "green"


def test_png_is_drawn_by_chromium(drawing: ModuleType, tmp_path: Path) -> None:
    """A program in its place gets the size, and the page."""
    program = tmp_path / "chromium"
    program.write_text(
        f"#!{sys.executable}\nimport sys, urllib.request\n"
        "path = next(each for each in sys.argv if each.startswith('--screenshot=')).partition('=')[2]\n"
        "page = urllib.request.urlopen(sys.argv[-1]).read().decode()\n"
        "open(path, 'w').write(' '.join(sys.argv[1:-1]) + page)\n"
    )
    program.chmod(0o755)
    svg = drawing.picture(drawing.emulate("x", columns=10))
    drawing.write_png(svg, tmp_path / "x.png", chromium=str(program))
    written = (tmp_path / "x.png").read_text()
    assert f"--window-size={10 * drawing.CELL + 2 * drawing.MARGIN:.0f},{drawing.LINE + 2 * drawing.MARGIN} " in written
    assert svg in written


def test_without_chromium_png_says_what_is_missing(
    drawing: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TOOLCAST_CHROMIUM", raising=False)
    with pytest.raises(FileNotFoundError, match="TOOLCAST_CHROMIUM"):
        drawing.write_png(drawing.picture(drawing.emulate("x")), tmp_path / "x.png")
