"""Changes a parser in one place, runs its tests, and counts the changes that they notice: `nox -s mutation`.

    python tests/mutate.py [--each COUNT] [--seed SEED] [MODULE ...]

A change swaps a comparison or an operator, negates a condition, or moves a number by one. Of each module COUNT of them
are tried, chosen by SEED. A change that makes the tests fail, or run for ten times as long, was noticed; one that was
not is printed. Below `GOAL` the exit code is 1.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
GOAL = 0.85
TARGETS = {
    "accumulator.py": "tests/test_accumulator.py",
    "retries.py": "tests/test_retries.py",
    "transport/content_decoding.py": "tests/transport/test_content_decoding.py",
    "providers/sse.py": "tests/providers/test_sse.py",
    "providers/tool_calls/by_index.py": "tests/providers/tool_calls/test_by_index.py",
    "parsing/json_stream.py": "tests/parsing/test_json_stream.py",
    "parsing/lenient_json.py": "tests/parsing/test_lenient_json.py",
}

_COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.And: ast.Or, ast.Or: ast.And}


@dataclass(frozen=True)
class Change:
    """One change of a syntax tree: what is changed, and how."""

    line: int
    what: str
    apply: Callable[[], object]


def changes(tree: ast.Module) -> Iterator[Change]:
    """Yield every change of the functions of `tree`; each is made by its `apply`."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    seen: set[int] = set()
    for function in functions:
        for statement in function.body:
            for node in ast.walk(statement):
                if id(node) not in seen and isinstance(node, ast.expr | ast.stmt):
                    seen.add(id(node))
                    yield from _of(node)


def _of(node: ast.expr | ast.stmt) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=[only]) if type(only) in _COMPARISONS:
            new = _COMPARISONS[type(only)]
            yield Change(node.lineno, new.__name__, lambda: setattr(node, "ops", [new()]))
        case ast.BoolOp() | ast.BinOp() if type(node.op) in _OPERATORS:
            other = _OPERATORS[type(node.op)]
            yield Change(node.lineno, other.__name__, lambda: setattr(node, "op", other()))
        case ast.If() | ast.While() | ast.IfExp():
            test = node.test
            yield Change(node.lineno, "not", lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), test)))
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            yield Change(node.lineno, f"{number + 1}", lambda: setattr(node, "value", number + 1))
        case ast.Constant(value=bool() as flag):
            yield Change(node.lineno, f"{not flag}", lambda: setattr(node, "value", not flag))


def changed(source: str, number: int) -> str:
    """Return the source with its change of this number made."""
    tree = ast.parse(source)
    list(changes(tree))[number].apply()
    return ast.unparse(ast.fix_missing_locations(tree))


def passes(tests: str, library: Path, limit: float | None) -> bool:
    """Return whether the tests pass with the library in this folder; too slow is not."""
    # Fixed examples: what is found must not depend on luck. The library of the folder comes before the installed one.
    # Nor on what was compiled before: a changed file may have the length and the second of the one before.
    env = os.environ | {"PYTHONPATH": str(library), "HYPOTHESIS_PROFILE": "ci", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", tests]
    try:
        return (
            subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=limit, check=False).returncode == 0
        )
    except subprocess.TimeoutExpired:
        return False


def noticed(module: str, library: Path, each: int, chance: random.Random) -> tuple[int, int]:
    """Return how many changes of a module its tests noticed, and how many were tried."""
    path, tests = library / "toolcast" / module, TARGETS[module]
    source = path.read_text(encoding="utf-8")
    begun = time.monotonic()
    if not passes(tests, library, None):
        raise SystemExit(f"{tests} fails without any change")
    limit = 10 * (time.monotonic() - begun)
    known = list(changes(ast.parse(source)))
    chosen = sorted(chance.sample(range(len(known)), min(each, len(known))))
    survived = 0
    for number in chosen:
        path.write_text(changed(source, number), encoding="utf-8")
        if passes(tests, library, limit):
            survived += 1
            print(f"  not noticed: {module}:{known[number].line}: {known[number].what}", flush=True)
    path.write_text(source, encoding="utf-8")
    print(f"{module}: {len(chosen) - survived} of {len(chosen)} noticed", flush=True)
    return len(chosen) - survived, len(chosen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=sorted(TARGETS), metavar="MODULE")
    parser.add_argument("--each", type=int, default=40, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = Path(shutil.copytree(ROOT / "src", Path(folder) / "src"))
        counts = [noticed(module, library, given.each, random.Random(given.seed)) for module in given.modules]
    found, tried = (sum(column) for column in zip(*counts, strict=True))
    print(f"{found} of {tried} changes noticed: {found / tried:.0%}")
    return 0 if found >= GOAL * tried else 1


if __name__ == "__main__":
    sys.exit(main())
