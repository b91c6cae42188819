"""The files in `requirements/`: every package pinned with its hashes, nothing of where it came from, none missing."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from typing import Any

import pytest

from project.source import ROOT

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PIN = re.compile(r"([a-z0-9.-]+)==[A-Za-z0-9.!+]+( ; [^\n]+?)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def names(requirements: Iterable[Any]) -> set[str]:
    """The names of the packages that are required, those of the groups that are included too."""
    found: set[str] = set()
    for each in requirements:
        if isinstance(each, str):
            found.add(re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0].lower().replace("_", "-").replace(".", "-"))
        else:
            found |= names(PYPROJECT["dependency-groups"][each["include-group"]])
    return found


def pinned(lock: str) -> set[str]:
    return {name for name, *_ in PIN.findall((ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8"))}


@pytest.mark.fault(149)
@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_lock_holds_pins_with_hashes_and_nothing_else(path: Any) -> None:
    text = path.read_text(encoding="utf-8")
    assert PIN.sub("", text) == ""
    assert PIN.search(text)


@pytest.mark.fault(149)
@pytest.mark.parametrize(
    ("lock", "groups", "extras"),
    [
        ("lint", ["test", "lint", "types", "build"], []),
        ("tests", ["test", "build"], []),
        ("compiled", ["test", "build", "compile"], []),
        ("local", ["networked", "browser", "docs", "build"], ["local"]),
        ("sdks", ["sdks", "build"], []),
        ("ray", ["ray", "build"], []),
        ("demo", ["build"], ["local"]),
        ("audit", ["audit", "build"], []),
        ("site", ["site", "build"], None),
        ("ci", ["ci"], None),
        ("uv", ["uv"], None),
        ("node", ["node"], None),
    ],
)
def test_a_lock_has_what_is_wanted(lock: str, groups: list[str], extras: list[str] | None) -> None:
    """Renew it with `nox -s lock` where it does not."""
    project = PYPROJECT["project"]
    wanted = names([{"include-group": group} for group in groups])
    if extras is not None:
        wanted |= names(project["dependencies"])
        wanted |= names(each for extra in extras for each in project["optional-dependencies"][extra])
    assert wanted - pinned(lock) == set()


def test_every_lock_is_looked_at() -> None:
    assert {path.stem for path in LOCKS} == {
        *("lint", "tests", "compiled", "local", "sdks", "ray", "demo", "site", "audit", "ci", "uv", "node")
    }
