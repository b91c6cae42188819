"""The scripts of the page, and the policy that allows them by their hashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcast.experiments.report import page


def test_the_libraries_are_one_script_after_their_licenses() -> None:
    text = page.chart_libraries()
    assert text.startswith("/*\nvega 6.") and text.count("Redistribution and use in source") >= 3
    assert "sourceMappingURL" not in text and "\nimport " not in text and "\nexport " not in text
    assert "const { ascending, isString, DisallowedObjectProperties } = vega;" in text
    assert len(text.encode()) < 850_000


def test_no_script_ends_its_element() -> None:
    for text in (page.chart_libraries(), page.page_script()):
        assert "</script" not in text.lower() and "<!--" not in text and "\r" not in text and "\0" not in text


def test_a_changed_library_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("vega.js", "vega-lite.js", "vega-interpreter.js", "licenses.txt"):
        (tmp_path / name).write_text("changed")
    monkeypatch.setattr(page, "_VENDOR", tmp_path)
    page.chart_libraries.cache_clear()
    with pytest.raises(ValueError, match=r"has no line .*renew it with docs/vendor_page\.py"):
        page.chart_libraries()


def test_the_policy_has_the_hashes_and_forbids_all_else() -> None:
    rest = "img-src data:; base-uri 'none'; form-action 'none'"
    style = "style-src 'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='"
    assert page.policy("abc", []) == f"default-src 'none'; {style}; {rest}"
    script = "script-src 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    assert page.policy("abc", [""]) == f"default-src 'none'; {script}; {style}; {rest}"
