"""The JavaScript libraries of the web page and of the report are the files of their packages."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from project.source import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import vendor_page

FOLDERS = pytest.mark.parametrize(
    ("folder", "packages"), vendor_page.FOLDERS.items(), ids=[each.parent.name for each in vendor_page.FOLDERS]
)


@FOLDERS
def test_every_file_has_its_hash_its_version_and_its_license(
    folder: Path, packages: Sequence[vendor_page.Package]
) -> None:
    versions = json.loads((folder / "versions.json").read_text())
    assert {path.name for path in folder.iterdir()} == {*versions, "versions.json", "licenses.txt"}
    for name, entry in versions.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == entry["sha256"], name
    assert {(name, entry["package"], entry["version"]) for name, entry in versions.items()} == {
        (each.name, each.package, each.version) for each in packages if each.file
    }
    licenses = (folder / "licenses.txt").read_text()
    for each in packages:
        assert f"\n{each.package} {each.version}\n" in f"\n{licenses}"


def test_a_changed_file_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = tmp_path / "node_modules"
    copies = {tmp_path / folder.parent.name: packages for folder, packages in vendor_page.FOLDERS.items()}
    for copy, packages in copies.items():
        for each in packages:
            for name in filter(None, (each.license, each.file)):
                (modules / each.package / name).parent.mkdir(parents=True, exist_ok=True)
                (modules / each.package / name).write_text(each.package)
        copy.mkdir()
        for name, content in vendor_page.vendored(modules, packages):
            (copy / name).write_bytes(content)
    monkeypatch.setattr(vendor_page, "FOLDERS", copies)
    assert vendor_page.differences(modules) == []
    (tmp_path / "page" / "katex.js").write_text("changed")
    (tmp_path / "page" / "purify.js").unlink()
    (tmp_path / "report" / "vega.js").unlink()
    assert vendor_page.differences(modules) == ["purify.js", "katex.js", "vega.js"]


@pytest.mark.networked
def test_the_files_are_those_of_the_packages(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("needs npm: THE VENDORED FILES WERE NOT COMPARED WITH THEIR PACKAGES")
    assert vendor_page.differences(vendor_page.install(tmp_path)) == []
