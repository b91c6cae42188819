"""The tests that a change can have broken, the nearest first: `nox -s affected`.

    python tests/affected.py [--base REV] [--seconds SECONDS]

A module's own tests come first (`tests/values/test_usage.py` of `values/usage.py`), then the tests that import it,
directly before indirectly, in the imports of today. They run until SECONDS are over; what was not run is printed.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
SRC = ROOT / "src"
AT_ONCE = 30
"""The number of modules with tests that one pytest collects: far more would take the time in which they could run."""
OTHER_SESSIONS = {
    **{f"tests/{name}": name for name in ("browser", "clients", "docs", "sdks")},
    "tests/project": "lint",
    "tests/typing": "types",
    "src/toolcast/apps/web/page": "browser",
    "docs": "docs",
    "examples": "docs",
    "README.md": "docs",
    "pyproject.toml": "lint",
    "noxfile.py": "lint",
}
"""The sessions that check what is below a path."""


def changed_files(base: str) -> list[Path]:
    """Return the files that differ from where this branch left `base`, and those that git does not have yet."""
    since = _git("merge-base", base, "HEAD").strip()
    names = _git("diff", "--name-only", "-z", since) + _git("ls-files", "-z", "--others", "--exclude-standard")
    return sorted({ROOT / name for name in names.split("\0") if name})


def distances(changed: Iterable[Path], modules: Mapping[str, Path]) -> dict[Path, int]:
    """Return the number of imports between each module and the nearest changed one, 0 for its own tests."""
    importers: dict[Path, set[Path]] = {}
    for name, path in modules.items():
        for imported in imports(name, path, modules):
            importers.setdefault(imported, set()).add(path)
    ahead = [path for path in changed if path.suffix == ".py"]
    found = dict.fromkeys([*ahead, *filter(Path.exists, map(own_tests, ahead))], 0)
    for path in ahead:
        for importer in sorted(importers.get(path, ())):
            if importer not in found:
                found[importer] = found[path] + 1
                ahead.append(importer)
    return found


def own_tests(module: Path) -> Path:
    """Return where the tests of a module are."""
    name = module.relative_to(SRC / "toolcast") if module.is_relative_to(SRC) else module.relative_to(ROOT)
    return TESTS / name.with_name(f"test_{name.name}")


def modules() -> dict[str, Path]:
    """Return the modules of the library and of its tests by their dotted names."""
    named: dict[str, Path] = {}
    for folder in (SRC, TESTS):
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def imports(name: str, path: Path, modules: Mapping[str, Path]) -> Iterator[Path]:
    """Yield the modules of the project that a module imports; a name that a package exports counts as its module."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *filter(None, [node.module])])
            wanted = [_origin(origin, alias.name, modules) for alias in node.names]
        else:
            continue
        yield from (modules[each] for each in wanted if each in modules)


def _origin(package: str, name: str, modules: Mapping[str, Path]) -> str:
    if f"{package}.{name}" in modules:
        return f"{package}.{name}"
    exports = _exports(modules[package]) if package in modules else {}
    return f"{package}.{exports[name]}" if name in exports else package


@cache
def _exports(package: Path) -> dict[str, str]:
    """Return the modules of the names that a package exports lazily, without importing it: pytest does that."""
    tree = ast.parse(package.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_EXPORTS":
            return {name: module for module, names in ast.literal_eval(node.value).items() for name in names.split()}
    return {}


class Deadline:
    """A plugin of pytest that ends a run when the time is over, and knows what was run."""

    def __init__(self, end: float) -> None:
        self.end = end
        self.begun: set[Path] = set()
        self.failed = False
        self.is_over = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.begun.add(ROOT / nodeid.partition("::")[0])
        if time.monotonic() > self.end and not self.is_over:
            self.is_over = True
            pytest.exit("the time is over", returncode=0)


def run(tests: list[Path], seconds: float) -> tuple[bool, list[Path]]:
    """Run these tests until the time is over. Return whether they passed, and those that were not run."""
    deadline = Deadline(time.monotonic() + seconds)
    left, passed = tests, True
    while passed and left and time.monotonic() < deadline.end:
        now, later = left[:AT_ONCE], left[AT_ONCE:]
        names = [str(path.relative_to(ROOT)) for path in now]
        code = pytest.main(["-q", "--suite=fast", "-n", "logical", "--dist=loadfile", *names], plugins=[deadline])
        passed = code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and not deadline.failed
        left = [*(now if deadline.is_over else ()), *later]
    return passed, [path for path in left if path not in deadline.begun]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="main", metavar="REV")
    parser.add_argument("--seconds", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--files", action="store_true", help="print the changed modules alone")
    given = parser.parse_args()
    changed = changed_files(given.base)
    if given.files:
        print(*(path.relative_to(ROOT) for path in changed if path.suffix == ".py" and path.exists()))
        return 0
    near = distances(changed, modules())
    tests = [path for path in near if path.name.startswith("test_") and path.exists()]
    elsewhere = {session for path in changed for session in [_session(path)] if session}
    mine = sorted((path for path in tests if not _session(path)), key=lambda path: (near[path], path))
    print(f"{len(changed)} files differ from {given.base}; {len(mine)} modules with tests import them", flush=True)
    passed, left = run(mine, given.seconds)
    if left:
        print(f"not run, the time was over: {len(left)} modules, from {left[0].relative_to(ROOT)} on")
    for session in sorted({*elsewhere, *(session for path in tests if (session := _session(path)))}):
        print(f"not run: nox -s {session}")
    print("not run: types, and what only `nox -s tests-full` runs")
    return 0 if passed else 1


def _session(path: Path) -> str:
    """Return the session of its own that checks a file, if there is one."""
    name = path.relative_to(ROOT).as_posix()
    return next((other for below, other in OTHER_SESSIONS.items() if f"{name}/".startswith(f"{below}/")), "")


def _git(*words: str) -> str:
    return subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
