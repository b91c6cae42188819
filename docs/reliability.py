"""Writes docs/reference/reliability.md from docs/reliability.toml, docs/mutation.json and the markers on the tests.

`python docs/reliability.py` writes the page. A test names the entries of the catalogue that it shows:
`@pytest.mark.fault(1, 66)`, `@pytest.mark.gate("G2")`, also as the `marks=` of one of its parameters. The markers are
read from the source of the tests, without importing them. A test holds the page against `page`, and fails where an
entry has no test or a marker names no entry.
"""

from __future__ import annotations

import ast
import json
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGE = DOCS / "reference" / "reliability.md"
CATALOGUE = DOCS / "reliability.toml"
MUTATION = DOCS / "mutation.json"

Key: TypeAlias = str  # "1" to "154", "G1" to "G16"
Entry: TypeAlias = Mapping[str, str]

_HEAD = """\
# Reliability

<!-- Written by docs/reliability.py from docs/reliability.toml and the markers on the tests: edit those. -->

The promise:

> For any byte sequence from a server, cut in any way, any timing, any cancellation: the call ends with either a
> validated result or exactly one exception of the library's hierarchy (or the one that the caller's own function
> raised), within the configured deadline and memory limit, with every connection returned, nothing executed from
> incomplete data, and no secret written anywhere. Cancellation and `KeyboardInterrupt` pass through unchanged.

The tables list every fault that is tested, the behaviour, and the tests, as paths below `tests/`. The gates, which
measure many faults at once, come first. [Errors](errors.md) describes the exceptions. Tests in `servers/`, `sdks/` and
`browser/` have their own sessions: `nox -s networked`, `nox -s sdks`, `nox -s browser`.
"""


def catalogue() -> dict[str, dict[Key, Entry]]:
    """Return the entries of the catalogue by section."""
    return tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))


def shown() -> dict[Key, list[str]]:
    """Return for each key the tests whose markers name it, as `path::name`, sorted."""
    found: defaultdict[Key, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for test, key in markers(path.read_text(encoding="utf-8")):
            found[key].add(f"{path.relative_to(ROOT).as_posix()}::{test}")
    return {key: sorted(tests) for key, tests in found.items()}


def markers(source: str) -> Iterator[tuple[str, Key]]:
    """Yield each test function of a file with each key that its markers name."""
    for node in ast.parse(source).body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
            continue
        calls = (call for decorator in node.decorator_list for call in ast.walk(decorator))
        for call in calls:
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("pytest.mark.fault", "pytest.mark.gate"):
                yield from ((node.name, str(ast.literal_eval(argument))) for argument in call.args)


def page() -> str:
    """Return the page."""
    tests = shown()
    sections = catalogue()
    titles = ["Gates", *(title for title in sections if title != "Gates")]
    return "\n".join([_HEAD, *(_section(title, sections[title], tests) for title in titles), _mutation()])


def _mutation() -> str:
    """Return the section with the counts of the last mutation test, by package."""
    counts: defaultdict[str, list[list[int]]] = defaultdict(list)
    for module, count in json.loads(MUTATION.read_text(encoding="utf-8")).items():
        counts[module.rpartition("/")[0] or "toolcast"].append(count)
    rows = []
    for package, modules in sorted(counts.items()):
        detected, tried = (sum(column) for column in zip(*modules, strict=True))
        rows.append(f"| {package} | {len(modules)} | {tried} | {detected} | {detected / tried:.0%} |\n")
    return (
        "## Mutation tests\n\n`nox -s mutation` changes a module in one place, runs its tests, and counts the changes "
        "that they detect. The last sample:\n\n| package | modules | changes | detected | |\n|---|---|---|---|---|\n"
    ) + "".join(rows)


def _section(title: str, entries: Mapping[Key, Entry], tests: Mapping[Key, Sequence[str]]) -> str:
    head = "| | situation | behaviour | tests |\n|---|---|---|---|\n"
    rows = (
        f"| {key} | {entry['when']} | {entry['then']} | {_evidence(entry, tests.get(key, ()))} |\n"
        for key, entry in entries.items()
    )
    return f"## {title}\n\n{head}{''.join(rows)}"


def _evidence(entry: Entry, tests: Sequence[str]) -> str:
    names = [test.removeprefix("tests/") for test in tests]
    if "session" in entry:
        names.append(f"nox -s {entry['session']}")
    return "<br>".join(f"`{name}`" for name in names) or "**no test**"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
