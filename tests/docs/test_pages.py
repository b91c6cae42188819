"""Tests of what the pages refer to: links, paths of the repository, sessions of nox, public names, agents."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

import toolcast
from docs.pages import PAGES, ROOT, name_of

LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
CODE = re.compile(r"^```.*?^```", re.M | re.S)
FILE = re.compile(r"`((?:benchmarks|examples|src|tests)/[\w./-]+)`")
DIRECTIVE = re.compile(r"^::: ([\w.]+)$", re.M)
API = ROOT / "docs" / "reference" / "api"
SESSION = re.compile(r"nox -s ([a-z_-]+)")
MODULE_ENGINE = re.compile(
    r'^(?: *")?(\w+(?:: [^=]+)? = (?:toolcast\.)?Engine\b[\[(].*)', re.M
)  # in a notebook after a quote


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    prose = CODE.sub("", page.read_text(encoding="utf-8"))  # `Engine[Shop](model)` is no link
    targets = LINK.findall(prose)
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_of_the_repository_exist(page: Path) -> None:
    assert [file for file in FILE.findall(page.read_text(encoding="utf-8")) if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_sessions_exist(page: Path) -> None:
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    sessions = set(re.findall(r'^@nox\.session(?:\ndef |\(name=")([\w-]+)', noxfile, re.M))
    assert set(SESSION.findall(page.read_text(encoding="utf-8"))) <= sessions


def exported() -> dict[str, object]:
    """Return what the public packages export, by its full name."""
    packages = [value for name in toolcast.__all__ if isinstance(value := getattr(toolcast, name), ModuleType)]
    found = {
        f"{package.__name__}.{name}": getattr(package, name)
        for package in (toolcast, *packages)
        for name in package.__all__
    }
    return {name: value for name, value in found.items() if value not in packages}


def test_every_public_name_is_on_some_page() -> None:
    pages = [page for page in PAGES if page.parent != API]
    everything = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert [name for name in exported() if not re.search(rf"\b{name.rpartition('.')[2]}\b", everything)] == []


def test_the_api_pages_have_everything_public_once() -> None:
    public = exported()
    documented = [name for page in API.glob("*.md") for name in DIRECTIVE.findall(page.read_text(encoding="utf-8"))]
    assert [name for name in documented if name not in public] == []
    found = [public[name] for name in documented]
    counts = {name: sum(one is other for other in found) for name, one in public.items()}
    assert [name for name, count in counts.items() if count != 1] == []


PROGRAMS = [
    path for folder in ("docs", "examples") for kind in ("py", "ipynb") for path in (ROOT / folder).rglob(f"*.{kind}")
]


@pytest.mark.parametrize("file", [*PAGES, *sorted(PROGRAMS)], ids=name_of)
def test_modules_define_agents(file: Path) -> None:
    """An `Engine` of a module is one conversation, which all users of the program would share."""
    assert MODULE_ENGINE.findall(file.read_text(encoding="utf-8")) == []
