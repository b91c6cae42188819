"""Findings of axe-core, the accessibility checker, in a page. The script is fetched from npm once per machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

import pytest

from support.extent import NIGHTLY

if TYPE_CHECKING:
    from playwright.sync_api import Page

VERSION = "4.10.3"
STORE = Path(gettempdir()) / f"toolcast-axe-core-{VERSION}"

FOUND = """async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((each) => each.html).join(" | ")}`);
}"""


EVERY_LOOK = [(width, scheme) for width in (390, 1280) for scheme in ("light", "dark")]
looks = pytest.mark.parametrize(
    ("width", "scheme"),
    EVERY_LOOK if NIGHTLY or os.environ.get("TOOLCAST_SCREENSHOTS") else [(390, "dark"), (1280, "light")],
)
"""Widths and colour schemes in which a page is checked. Each check takes about ten seconds."""


def script() -> str:
    """Return the script, or skip the test where there is neither a copy of it nor npm."""
    target = STORE / "axe.min.js"
    if not target.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("needs npm for axe-core: NOT TESTED HERE")
        STORE.mkdir(exist_ok=True)
        packed = subprocess.run(
            [npm, "pack", f"axe-core@{VERSION}", "--json"], cwd=STORE, capture_output=True, text=True, timeout=120
        )
        if packed.returncode:
            pytest.skip("npm has no axe-core here: NOT TESTED HERE")
        name = json.loads(packed.stdout)[0]["filename"]
        with tarfile.open(STORE / name) as package:
            member = package.extractfile("package/axe.min.js")
            assert member is not None
            target.write_bytes(member.read())
    return target.read_text(encoding="utf-8")


def findings(page: Page) -> list[str]:
    """Return what axe-core finds in the page as it is."""
    page.evaluate(script())
    found: list[str] = page.evaluate(FOUND)
    return found
