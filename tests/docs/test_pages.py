"""Tests of what the pages refer to: links, paths of the repository, sessions of nox, public names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import toolcast
import toolcast.testing
from docs.pages import PAGES, ROOT, name_of

LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
FILE = re.compile(r"`((?:benchmarks|examples|src|tests)/[\w./-]+)`")
DIRECTIVE = re.compile(r"^::: toolcast\.([\w.]+)$", re.M)
API = ROOT / "docs" / "reference" / "api"
SESSION = re.compile(r"nox -s ([a-z_]+)")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_of_the_repository_exist(page: Path) -> None:
    assert [file for file in FILE.findall(page.read_text(encoding="utf-8")) if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_sessions_exist(page: Path) -> None:
    sessions = set(re.findall(r"^@nox\.session\ndef (\w+)", (ROOT / "noxfile.py").read_text(), re.M))
    assert set(SESSION.findall(page.read_text(encoding="utf-8"))) <= sessions


def exported() -> list[str]:
    """Return the public names, as they follow `toolcast.`."""
    own = [name for name in toolcast.__all__ if not name.startswith("__")]
    return sorted([*own, *(f"testing.{name}" for name in toolcast.testing.__all__)])


def test_every_public_name_is_on_some_page() -> None:
    pages = [page for page in PAGES if page.parent != API]
    everything = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert [name for name in exported() if not re.search(rf"\b{name.rpartition('.')[2]}\b", everything)] == []


def test_the_api_pages_have_every_public_name_once() -> None:
    documented = [name for page in API.glob("*.md") for name in DIRECTIVE.findall(page.read_text(encoding="utf-8"))]
    assert sorted(documented) == exported()
