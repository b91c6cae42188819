"""The gallery: its page has every scene, and every picture that the page names."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

pytest.importorskip("pyte")
pytest.importorskip("pexpect")

from docs.pages import ROOT

DOCS = ROOT / "docs"
MODULES = ("gallery", "gallery_page", "gallery_terminal", "gallery_model", "terminal_picture")


@pytest.fixture(scope="module")
def gallery() -> Iterator[ModuleType]:
    """The script that draws the gallery."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        for name in MODULES:
            patch.delitem(sys.modules, name, raising=False)
        yield importlib.import_module("gallery")
        for name in MODULES:
            patch.delitem(sys.modules, name, raising=False)


def test_the_page_shows_every_scene(gallery: ModuleType) -> None:
    assert gallery.PAGE.read_text(encoding="utf-8") == gallery.gallery(), "run python docs/gallery.py"


def test_the_page_names_every_picture_and_no_other(gallery: ModuleType) -> None:
    named = re.findall(r"images/gallery/([\w.-]+)", gallery.gallery())
    assert len(named) == len(set(named))
    assert set(named) == {path.name for path in gallery.IMAGES.iterdir()}


def test_no_scene_has_the_name_of_another(gallery: ModuleType) -> None:
    assert not gallery.gallery_terminal.SCENES.keys() & gallery.gallery_page.SCENES.keys()
