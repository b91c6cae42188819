"""The packages of package.json are installed, as package-lock.json has them, and scripts can import them."""

from __future__ import annotations

import json
import re

import pytest

from clients.node import SCRIPTS, run_node

USED = {
    "@ag-ui/client": "HttpAgent",
    "@ag-ui/core": "EventType",
    "ai": "readUIMessageStream",
    "openai": "OpenAI",
    "typescript": "createProgram",
    "xstate": "createMachine",
}
"""A name of each package that the tests use."""


def test_every_package_is_imported() -> None:
    packages = json.loads((SCRIPTS / "package.json").read_text(encoding="utf-8"))["dependencies"]
    names = dict(run_node("versions.mjs", *packages))
    assert {name: used in names[name] for name, used in USED.items()} == dict.fromkeys(packages, True)


def test_the_lock_has_exact_versions_and_no_registry() -> None:
    packages = json.loads((SCRIPTS / "package.json").read_text(encoding="utf-8"))["dependencies"]
    locked = json.loads((SCRIPTS / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert {name: locked[f"node_modules/{name}"]["version"] for name in packages} == packages
    assert [name for name, package in locked.items() if name and not package["integrity"].startswith("sha512-")] == []
    assert [name for name, package in locked.items() if "resolved" in package] == []


def test_a_script_that_fails_says_why() -> None:
    with pytest.raises(pytest.fail.Exception, match=re.escape("Cannot find package 'no-such-package'")):
        run_node("versions.mjs", "no-such-package")
