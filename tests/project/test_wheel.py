"""The wheel: built once, looked into, and imported from."""

from __future__ import annotations

import email
import subprocess
import sys
import zipfile
from email.message import Message
from pathlib import Path, PurePath

import pytest

import toolcast
from project.source import ROOT, SRC

WORDS = {
    "toolcast/text/stemming/stop_words.txt",
    "toolcast/text/stemming/synonyms.txt",
    "toolcast/llms/embeddings/common_words.txt",
}

TEMPLATES = {
    f"toolcast/experiments/report/templates/{name}"
    for name in ("comparison.html", "page.html", "parts.html", "report.js", "run.html", "style.css")
}
LIBRARIES = {
    f"toolcast/experiments/report/vendor/{name}"
    for name in ("licenses.txt", "vega-interpreter.js", "vega-lite.js", "vega.js", "versions.json")
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    """The METADATA file in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def test_wheel_holds_the_library_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {path.relative_to(SRC).as_posix() for path in SRC.rglob("*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name}
    assert names == files
    code = {name for name in files if PurePath(name).suffix == ".py"}
    page = {name for name in files if name.startswith("toolcast/apps/web/page/")}
    vendored = {f"toolcast/apps/web/page/vendor/{name}" for name in ("licenses.txt", "versions.json")}
    assert vendored <= page
    assert {PurePath(name).suffix for name in page - vendored} == {".html", ".css", ".js", ".svg"}
    forms = "toolcast/agents/permissions/shell/forms.toml"
    assert files - code - page == {"toolcast/py.typed", forms, *WORDS, *TEMPLATES, *LIBRARIES}


def test_wheel_is_for_every_machine(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")


def test_metadata(metadata: Message) -> None:
    assert metadata["Name"] == "toolcast"
    assert metadata["Version"] == toolcast.__version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert str(metadata.get_payload()).startswith("# toolcast")


@pytest.mark.fault(136, 149)
def test_run_time_dependencies_are_five(metadata: Message) -> None:
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    names = {line.split(">")[0].split("<")[0].split(";")[0].strip() for line in needed}
    assert names == {"pydantic", "httpx", "anyio", "jiter", "typing-extensions"}


def test_wheel_imports_and_its_command_starts(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    entry = next(tmp_path.glob("*.dist-info/entry_points.txt")).read_text()
    assert "toolcast = toolcast.apps.cli:main" in entry
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import toolcast
assert toolcast.__file__.startswith({str(tmp_path)!r}), toolcast.__file__
from toolcast.text.stemming.stems import synonyms, stems
from toolcast.llms.embeddings.offline import is_common
from toolcast.experiments.report.html import render
assert "color-scheme" in render("style.css", {{}})
assert stems("the mail") == ["mail"] and "email" in synonyms("mail") and is_common("water")
from toolcast.apps.cli import main
sys.argv = ["toolcast", "--help"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pull" in done.stdout
