"""Tests of the reliability table: every entry is shown by a test, and the page is that of the markers."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest

from docs.pages import ROOT


@pytest.fixture(scope="module")
def reliability() -> ModuleType:
    """The script that writes the page."""
    spec = importlib.util.spec_from_file_location("reliability", ROOT / "docs" / "reliability.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def keys(reliability: ModuleType) -> list[str]:
    return [key for entries in reliability.catalogue().values() for key in entries]


def test_the_page_is_up_to_date(reliability: ModuleType) -> None:
    assert reliability.PAGE.read_text(encoding="utf-8") == reliability.page(), "run `python docs/reliability.py`"


def test_the_catalogue_is_complete(reliability: ModuleType) -> None:
    faults = [str(number) for number in range(1, 155)]
    assert keys(reliability) == [*faults, *(f"G{number}" for number in range(1, 17))]


def test_every_entry_is_shown_by_a_test(reliability: ModuleType) -> None:
    shown = reliability.shown()
    assert [key for key in keys(reliability) if key not in shown] == []


def test_every_marker_names_an_entry(reliability: ModuleType) -> None:
    assert sorted(reliability.shown().keys() - set(keys(reliability))) == []


def test_sessions_of_entries_exist(reliability: ModuleType) -> None:
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    named = {
        entry["session"]
        for entries in reliability.catalogue().values()
        for entry in entries.values()
        if "session" in entry
    }
    assert named <= set(re.findall(r"^@nox\.session\ndef (\w+)", noxfile, re.M))


def test_markers_are_read_from_functions_and_parameters(reliability: ModuleType) -> None:
    source = (
        "@pytest.mark.fault(1, 66)\n@pytest.mark.gate('G2')\nasync def test_a(): ...\n"
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.fault(13))])\ndef test_b(): ...\n"
        "@pytest.mark.fault(2)\ndef helper(): ...\n"
    )
    assert list(reliability.markers(source)) == [("test_a", "1"), ("test_a", "66"), ("test_a", "G2"), ("test_b", "13")]
