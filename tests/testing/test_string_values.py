"""The forms of strings."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.testing.string_values import make_text


@given(st.integers(0, 50), st.integers(0, 50), st.sampled_from(["minimal", "typical", "maximal"]), st.integers(0, 60))
def test_lengths(shortest: int, more: int, size: Any, tries: int) -> None:
    body = {"minLength": shortest, "maxLength": shortest + more}
    if tries > 2:  # other forms, whatever their length
        assert make_text(body, size, Random(tries), tries)
        return
    text = make_text(body, size, Random(tries), tries)
    assert shortest <= len(text) <= shortest + more
    assert text == text.strip()


def test_other_forms_come_in_turn() -> None:
    forms = [make_text({}, "typical", Random(0), tries) for tries in range(3, 80)]
    assert {"math.pi", "UTC", "192.0.2.1"} <= set(forms)
    assert len(set(forms)) > 25


@pytest.mark.parametrize("version", range(1, 9))
def test_versions_of_uuids(version: int) -> None:
    text = make_text({"format": f"uuid{version}"}, "typical", Random(1), 0)
    assert text[14] == str(version)
    assert text[19] in "89ab"


def test_paths_are_those_of_a_folder_of_its_own() -> None:
    """A tool that is called may write to them, or remove them."""
    file = Path(make_text({"format": "file-path"}, "typical", Random(0), 0))
    folder = Path(make_text({"format": "directory-path"}, "typical", Random(0), 0))
    assert file.is_file() and file.parent == folder
    assert folder.name.startswith("toolcast-")


def test_a_format_that_is_unknown_is_words() -> None:
    assert make_text({"format": "poem"}, "typical", Random(0), 0).count(" ") == 1


def test_where_no_text_matches_the_pattern_there_are_other_forms() -> None:
    """The validator decides: the pattern may be in the syntax of another engine."""
    assert make_text({"pattern": r"^\p{Lu}$"}, "typical", Random(0), 0).count(" ") == 1
    assert "EUR" in [make_text({"pattern": r"^\p{Lu}+$"}, "typical", Random(0), tries) for tries in range(40)]


def test_after_the_forms_of_a_format_there_are_others() -> None:
    forms = [make_text({"format": "color"}, "typical", Random(0), tries) for tries in range(40)]
    assert forms[:4] == ["#ffaa00", "red", "#ffaa00", "red"]
    assert "UTC" in forms
