"""Casts of terminals, and the animations that are drawn of them."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

pytest.importorskip("pyte")
pytest.importorskip("pexpect")

from docs.pages import ROOT

SVG = "{http://www.w3.org/2000/svg}"
PROGRAM = "import time; print('\x1b[1mone\x1b[0m'); time.sleep(1); print('\x1b[Atwo')"


@pytest.fixture(scope="module")
def cast() -> ModuleType:
    """The script."""
    spec = importlib.util.spec_from_file_location("record_cast", ROOT / "docs" / "record_cast.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    path = [*sys.path]
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo terminal, which Windows does not have")
def test_a_program_is_recorded_and_drawn(cast: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cast, "LONGEST_PAUSE", 0.25)
    cast.main([str(tmp_path / "x"), "--title", "Of <x>", "--command", "python", "-c", PROGRAM])
    columns, rows, outputs = cast.read_cast(tmp_path / "x.cast")
    assert (columns, rows) == (cast.COLUMNS, cast.ROWS)
    assert outputs[0].text.startswith("$ python -c import time")
    assert outputs[0].text.endswith("  # pauses are shortened\r\n")
    assert outputs[-1].at <= 0.25 * len(outputs)
    svg = (tmp_path / "x.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(svg)
    shown = {"".join(line.itertext()) for line in root.iter(f"{SVG}g") if "id" in line.attrib}
    assert {"one", "two"} <= shown
    assert root.findtext(f"{SVG}title") == "Of <x>"
    assert (root.attrib["width"], root.attrib["height"]) == ("698", "568")
    frames = [each for each in root.iter(f"{SVG}g") if "transform" in each.attrib]
    assert len(frames) == len(re.findall(r"%\{transform", svg)) >= 2
    (tmp_path / "x.svg").unlink()
    cast.main([str(tmp_path / "x"), "--title", "Of <x>", "--draw"])
    assert (tmp_path / "x.svg").read_text(encoding="utf-8") == svg


def test_a_program_that_fails_is_no_cast(cast: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="failed with exit code 3"):
        cast.main([str(tmp_path / "x"), "--command", "python", "-c", "raise SystemExit(3)"])
    assert [*tmp_path.iterdir()] == []


def test_an_animation_has_a_limit(cast: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cast.write_cast([cast.Output(0.0, "x")], tmp_path / "x.cast")
    monkeypatch.setattr(cast, "LARGEST", 100)
    with pytest.raises(SystemExit, match="more than 100"):
        cast.main([str(tmp_path / "x"), "--draw"])


def test_the_animation_of_the_readme_is_that_of_its_cast(cast: ModuleType, tmp_path: Path) -> None:
    """Each output of the demo's model is there, and the file is small."""
    drawn = ROOT / "docs" / "images" / "demo.svg"
    (tmp_path / "demo.cast").write_bytes(drawn.with_suffix(".cast").read_bytes())
    cast.main([str(tmp_path / "demo"), "--draw"])
    assert (tmp_path / "demo.svg").read_text(encoding="utf-8") == drawn.read_text(encoding="utf-8")
    assert drawn.stat().st_size < 300_000
    assert "docs/images/demo.svg" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "Ruth Adler" in drawn.read_text(encoding="utf-8")
