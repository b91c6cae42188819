"""What the pages point at is there: files behind links, sessions behind `nox -s NAME`, public names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import toolcast
from docs.pages import PAGES, ROOT, name_of

LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
SESSION = re.compile(r"nox -s ([a-z_]+)")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_sessions_exist(page: Path) -> None:
    sessions = set(re.findall(r"^@nox\.session\ndef (\w+)", (ROOT / "noxfile.py").read_text(), re.M))
    assert set(SESSION.findall(page.read_text(encoding="utf-8"))) <= sessions


def test_every_public_name_is_on_some_page() -> None:
    everything = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    missing = [
        name for name in toolcast.__all__ if not name.startswith("__") and not re.search(rf"\b{name}\b", everything)
    ]
    assert missing == []
