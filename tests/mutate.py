"""Changes a module in one place, runs its tests, and counts the changes that they detect: `nox -s mutation`.

    python tests/mutate.py [--each COUNT] [--seconds SECONDS] [--seed SEED] [--write] [MODULE ...]

A change swaps a comparison or an operator, negates a condition, or moves a number by one. Of each module COUNT of them
are tried, chosen by SEED, for at most SECONDS. A change that makes the tests fail, or run for ten times as long, is
detected; one that is not is printed. Below `GOAL` the exit code is 1. `--write` keeps the counts of these modules in
`docs/mutation.json`, from which `docs/reliability.py` makes a table.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
GOAL = 0.9
RESULTS = ROOT / "docs" / "mutation.json"
PERMISSIONS = "tests/agents/permissions"
TARGETS = {
    "values/accumulator.py": ("tests/values/test_accumulator.py",),
    "values/retries.py": (
        "tests/values/test_retries.py",
        "tests/llms/http/test_http_exchange.py",
        "tests/llms/test_call_report.py",
    ),
    "values/states.py": ("tests/values/test_states.py",),
    "agents/engine/compaction.py": ("tests/agents/engine/test_compaction.py",),
    "agents/engine/turn_loop.py": (
        *("tests/agents/engine/test_turn_loop.py", "tests/agents/engine/test_engine.py"),
        *("tests/agents/engine/test_turn_limits.py", "tests/agents/engine/test_tool_phase.py"),
    ),
    "agents/permissions/argument_values.py": (PERMISSIONS,),
    "agents/permissions/call_decisions.py": (PERMISSIONS, "tests/agents/engine/test_tool_phase.py"),
    "agents/permissions/permissions.py": (PERMISSIONS,),
    "agents/permissions/protected_paths.py": (PERMISSIONS,),
    "agents/permissions/rules.py": (PERMISSIONS,),
    "agents/permissions/shell/forms.py": (PERMISSIONS,),
    "agents/permissions/shell/lexer.py": (PERMISSIONS,),
    "agents/permissions/shell/parser.py": (PERMISSIONS,),
    "agents/permissions/shell/patterns.py": (PERMISSIONS,),
    "agents/sessions/saved_session.py": ("tests/agents/sessions", "tests/apps/web/test_saved_chat.py"),
    "agents/subagents/elves.py": ("tests/agents/subagents",),
    "apps/argument_text.py": ("tests/apps/test_argument_text.py",),
    "apps/diff_rows.py": ("tests/apps/test_diff_rows.py",),
    "apps/get_command.py": ("tests/apps/test_get_command.py",),
    "apps/repl/approval_prompt.py": ("tests/apps/repl/test_approval_prompt.py", "tests/apps/repl/test_approving.py"),
    "apps/repl/rich_screen.py": ("tests/apps/repl/test_status_text.py",),
    "apps/logs_command.py": ("tests/apps/test_logs_command.py",),
    "batch/job_budget.py": ("tests/batch/test_job_budget.py", "tests/batch/test_map_budget.py"),
    "batch/checkpoint.py": ("tests/batch/test_checkpoint.py", "tests/batch/test_resumed_jobs.py"),
    "chat/actions.py": ("tests/chat",),
    "chat/guards.py": ("tests/chat",),
    "chat/transitions.py": ("tests/chat",),
    "parsing/tool_arguments.py": ("tests/parsing/test_tool_arguments.py", "tests/tools/test_function_schema.py"),
    "parsing/container_stack.py": ("tests/parsing",),
    "parsing/json_stream.py": ("tests/parsing/test_json_stream.py",),
    "parsing/lenient_json.py": ("tests/parsing/test_lenient_json.py",),
    "parsing/partial_builder.py": ("tests/parsing",),
    "parsing/type_plan.py": ("tests/parsing",),
    "providers/anthropic/decoder.py": ("tests/providers/anthropic",),
    "providers/aws_event_stream.py": ("tests/providers/test_aws_event_stream.py",),
    "providers/bedrock/decoder.py": ("tests/providers/bedrock/test_decoder.py",),
    "providers/chat_completions/decoder.py": (
        *("tests/providers/test_media_output.py", "tests/providers/chat_completions"),
    ),
    "providers/cohere/decoder.py": ("tests/providers/cohere", "tests/providers/test_citation_forms.py"),
    "providers/event_fast_path.py": ("tests/providers/test_event_fast_path.py",),
    "providers/google/decoder.py": ("tests/providers/google", "tests/providers/test_media_output.py"),
    "providers/mistral/decoder.py": ("tests/providers/mistral",),
    "providers/ollama/decoder.py": ("tests/providers/ollama", "tests/providers/test_event_fast_path.py"),
    "providers/openai/decoder.py": ("tests/providers/openai",),
    "providers/response_decoder.py": (
        *("tests/providers/test_event_fast_path.py", "tests/providers/bedrock/test_decoder.py"),
        *("tests/providers/chat_completions", "tests/providers/anthropic", "tests/llms/test_response_data.py"),
    ),
    "providers/sse.py": ("tests/providers/test_sse.py",),
    "providers/tool_calls/by_index.py": ("tests/providers/tool_calls/test_by_index.py",),
    "transport/content_decoding.py": ("tests/transport/test_content_decoding.py",),
}
"""Modules, above all those without I/O, and the tests of each."""

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


def passes(tests: Sequence[str], library: Path, limit: float | None) -> bool:
    """Return whether the tests pass with the library in this folder; too slow is not."""
    # Fixed examples: what is found must not depend on luck. The library of the folder comes before the installed one.
    # Nor on what was compiled before: a changed file may have the length and the second of the one before.
    env = os.environ | {"PYTHONPATH": str(library), "HYPOTHESIS_PROFILE": "ci", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--suite=fast", *tests]
    try:
        return (
            subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=limit, check=False).returncode == 0
        )
    except subprocess.TimeoutExpired:
        return False


def detected(module: str, library: Path, each: int, seconds: float, chance: random.Random) -> tuple[int, int]:
    """Return how many changes of a module its tests detected, and how many were tried in this time."""
    path, tests = library / "toolcast" / module, TARGETS[module]
    source = path.read_text(encoding="utf-8")
    begun = time.monotonic()
    if not passes(tests, library, None):
        raise SystemExit(f"{', '.join(tests)}: a test fails without any change")
    limit = 10 * (time.monotonic() - begun)
    known = list(changes(ast.parse(source)))
    tried = survived = 0
    for number in chance.sample(range(len(known)), min(each, len(known))):
        if time.monotonic() - begun > seconds:
            break
        path.write_text(changed(source, number), encoding="utf-8")
        tried += 1
        if passes(tests, library, limit):
            survived += 1
            print(f"  not detected: {module}:{known[number].line}: {known[number].what}", flush=True)
    path.write_text(source, encoding="utf-8")
    print(f"{module}: {tried - survived} of {tried} detected", flush=True)
    return tried - survived, tried


def write(counts: Mapping[str, tuple[int, int]]) -> None:
    """Replace the stored counts of these modules."""
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    stored.update(counts)
    lines = ",\n".join(f"  {json.dumps(module)}: {json.dumps(list(stored[module]))}" for module in sorted(stored))
    RESULTS.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=sorted(TARGETS), metavar="MODULE")
    parser.add_argument("--each", type=int, default=40, metavar="COUNT")
    parser.add_argument("--seconds", type=float, default=300, metavar="SECONDS")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = Path(shutil.copytree(ROOT / "src", Path(folder) / "src"))
        counts: dict[str, tuple[int, int]] = {}
        for module in given.modules:
            chance = random.Random(given.seed)
            if (count := detected(module, library, given.each, given.seconds, chance))[1]:
                counts[module] = count
            if given.write:
                write(counts)
    found, tried = (sum(column) for column in zip(*counts.values(), strict=True))
    print(f"{found} of {tried} changes detected: {found / tried:.0%}")
    return 0 if found >= GOAL * tried else 1


if __name__ == "__main__":
    sys.exit(main())
