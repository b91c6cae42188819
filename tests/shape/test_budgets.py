"""Budgets: how long a function may be, how many parameters, which names, which excepts.

Every exception to a rule stands in a table of this file, with its reason.
"""

from __future__ import annotations

import ast
import re
from statistics import median

import pytest

from shape.source import MODULES, ROOT, FunctionNode, Module, project_files, walk, where

BODY_MEDIAN = 6
BODY_MAX = 50
PARAMETERS = 6

# Constructors that carry a whole configuration, which a user writes down once.
WIDE_CONSTRUCTORS = {
    ("orchestrator", "ToolOrchestratingLLM"),
    ("agents.engine.engine", "Engine"),
    ("testing.scripted", "ScriptedLLM"),
}
WIDE_MODULES = {"llms.base", "ready_made", "service_llm"}  # every ready-made LLM

# **kwargs only where they are the caller's own names: the values of a prompt's holes, `with_(**changes)` and
# the options of an LLM (both typed by a TypedDict; `service_llm` by an empty one, to name what it does not take), and
# the circumstances that every CallError carries.
KWARGS = {
    "prompts": {"format", "format_messages"},
    "orchestrator": {"__call__", "acall", "stream", "astream", "run", "arun", "preview", "request", "with_"},
    "llms.base": {"with_"},
    "ready_made": {"__init__", "llm"},
    "service_llm": {"__init__"},
    "settings": {"with_"},
    "tools.callable_tool": {"with_"},
    "errors": {"__init__"},
}

FORBIDDEN_WORDS = {"Manager", "Handler", "Helper", "Helpers", "Processor", "Util", "Utils"}
ALLOWED_NAMES = {"StreamingObjectProcessor", "ElfManager"}  # the public contract names them

# `except Exception` only where foreign code is called, or where an error is kept to be raised elsewhere:
# (module, function) -> why.
CAUGHT_WHOLE = {
    ("experiments.report.similarity_matrix", "likeness_of"): "an embedder: its failure replaces the picture",
    ("experiments.json_safe", "_safe"): "foreign objects: what fails when written is written as a note on that",
    ("experiments.similarity", "SimilarityMonitor._tried"): "the user's embedder: why it failed becomes the `error`",
    ("apps.repl.repl", "Repl._turn"): "whatever ends a turn, foreign tools and models too, is one line and the prompt",
    ("apps.repl.tool_files", "tools_of"): "the user's file of tools: what it raises is told with its line",
    ("agents.mcp.connection", "Link._hold"): "the mcp package: its failure is the error of all waiters",
    ("agents.mcp.connection", "Link._asked"): "the mcp package: what it raises becomes an MCPError of the call",
    ("agents.permissions.argument_values", "seen"): "values of the user's own types: a failing value is denied",
    ("agents.subagents.tools", "_ElfTools.spawn_elves"): "a task that cannot start is reported beside the others",
    ("agents.subagents.tools", "_ElfTools.aspawn_elves"): "a task that cannot start is reported beside the others",
    ("agents.sessions.session", "Session._end"): "the user's store: what it raises is raised by `result`",
    ("chat.machine", "_Chat._tell"): "the user's listener: logged, the chat goes on",
    ("experiments.cycles", "CycleOrchestrator._tell"): "the user's listener: logged, none of the run's business",
    ("chat.machine", "_Chat._do"): "whatever ends work is told as the failure of its stage",
    ("experiments.grids.grid", "_here"): "whatever ends one run of a grid is told as its result, and the others go on",
    ("experiments.grids.grid", "_tell"): "the user's listener: logged, none of the runs' business",
    ("experiments.grids.workers", "_done"): "whatever ends the run of a worker is told to the process that wanted it",
    ("experiments.grids.ray_workers", "_next"): "Ray: whatever ends a task is told as the result of its run",
    ("accounts", "Account._lines"): "the user's output or error, shown: what fails is written instead",
    ("states", "Trace._tell"): "the user's observer: logged, none of the call's business",
    ("tools.execution", "Job.run"): "the user's tool: its failure becomes the call's result",
    ("tools.execution", "ToolRun._beside"): "the user's tool, in a job of its own: `more` raises it",
    ("agents.engine.tool_phase", "ToolPhase.ask"): "the user's approver: what fails has not said yes",
    ("agents.engine.turn_loop", "TurnFlow.pull"): "the contract: its failure is its last event; result() raises it",
    ("agents.engine.turn_loop", "TurnFlow._end_round"): "a foreign source's close: the answer is there, and counts",
    ("tools.execution", "read_call"): "the user's validators: their failure becomes the call's result",
    ("tool_texts", "text_of"): "what the user's tool gave: writing it may run any code",
    ("tool_texts", "_words"): "the user's exception: its `__str__` may fail",
    ("parsing.partial_builder", "Walk._judged"): "the user's validators: what they raise is held back for the end",
    ("async_support.shielding", "_finished"): "a foreign close that failed after its caller was cancelled",
    (
        "async_support.interruptible",
        "Interruptible._in_asyncio",
    ): "whatever is thrown into a task is handed to what it awaits",
    ("async_support.background_jobs", "SideJob.work"): "kept in the job's error, for whoever asks",
    ("async_support.shielding", "_alone"): "a foreign transport's close, for which nobody waits any more",
    ("llms.event_streams", "_EventState._pull"): "the contract: False, with the error in .err; iteration raises it",
}

# A silenced checker must say why, after the rule it silences.
SILENCED = re.compile(
    r"#\s*(?:type: ignore|pyright: ignore|noqa|pragma: no (?:cover|branch))"
    r"(?:\[[^]]*\]|: [A-Z0-9, ]+)?(.*)"
)
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")

FUNCTIONS = [(module, name, node) for module in MODULES for name, node in module.functions]


def body_lines(node: FunctionNode, module: Module) -> int:
    """Lines of code of a function's body: no docstring, no blank lines, no lines that are only a comment."""
    body = node.body
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        body = body[1:]
    if not body:
        return 0
    lines = module.text.splitlines()[body[0].lineno - 1 : node.end_lineno]
    return sum(1 for line in lines if line.strip() and not line.strip().startswith("#"))


def parameters(node: FunctionNode) -> int:
    """How many parameters a caller may give."""
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return sum(1 for argument in given if argument.arg not in ("self", "cls"))


def may_be_wide(module: Module, name: str) -> bool:
    owner, _, function = name.rpartition(".")
    return function == "__init__" and (module.name in WIDE_MODULES or (module.name, owner) in WIDE_CONSTRUCTORS)


def test_functions_are_short() -> None:
    sizes = [(body_lines(node, module), where(module, node.lineno), name) for module, name, node in FUNCTIONS]
    assert [size for size in sizes if size[0] > BODY_MAX] == []
    assert median(size for size, _, _ in sizes) <= BODY_MEDIAN


def test_parameters_are_few() -> None:
    found = [
        f"{where(module, node.lineno)} {name}: {parameters(node)}"
        for module, name, node in FUNCTIONS
        if parameters(node) > PARAMETERS and not may_be_wide(module, name)
    ]
    assert found == []


def test_kwargs_are_the_callers_own_names() -> None:
    found = [
        f"{where(module, node.lineno)} {name}(**{node.args.kwarg.arg})"
        for module, name, node in FUNCTIONS
        if node.args.kwarg and node.name not in KWARGS.get(module.name, ())
    ]
    assert found == []


def words(name: str) -> set[str]:
    """The words of a CamelCase or snake_case name, capitalized."""
    return {word.capitalize() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def test_names_say_something() -> None:
    named = [
        (node.name, where(module, node.lineno))
        for module in MODULES
        for _, node in (*module.classes, *module.functions)
    ]
    named += [(module.name.rpartition(".")[2], str(module.path.relative_to(ROOT))) for module in MODULES]
    found = [pair for pair in named if words(pair[0]) & FORBIDDEN_WORDS and pair[0] not in ALLOWED_NAMES]
    assert found == []


def catches_everything(node: ast.AST) -> bool:
    """Whether this is `except:`, `except Exception`, `except BaseException` or `suppress(Exception)`."""
    if isinstance(node, ast.ExceptHandler):
        caught = ast.unparse(node.type) if node.type else "Exception"
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
        caught = " ".join(ast.unparse(argument) for argument in node.args)
    else:
        return False
    return bool(re.search(r"(?<![\w.])(Base)?Exception\b", caught))


def only_cleans_up(node: ast.AST) -> bool:
    """Whether a clause ends by raising again what it caught: nothing is swallowed there."""
    last = node.body[-1] if isinstance(node, ast.ExceptHandler) else None
    return isinstance(last, ast.Raise) and last.exc is None


def test_only_foreign_code_is_caught_whole() -> None:
    found = {
        (module.name, name): where(module, node.lineno)  # type: ignore[attr-defined]  # a clause or a call has a line
        for module in MODULES
        for name, node in walk(module.tree)
        if catches_everything(node) and not only_cleans_up(node)
    }
    unlisted = {place: at for place, at in found.items() if place not in CAUGHT_WHOLE}
    assert unlisted == {}, "if foreign code is called there, say so in CAUGHT_WHOLE"
    assert set(CAUGHT_WHOLE) <= set(found), "no longer there: take it out of CAUGHT_WHOLE"


def first_line(node: ast.Module | ast.ClassDef | FunctionNode) -> str:
    return (ast.get_docstring(node) or "").split("\n")[0].strip()


def is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


@pytest.mark.parametrize("module", [m for m in MODULES if not m.is_empty], ids=lambda m: m.name or "toolcast")
def test_docstrings(module: Module) -> None:
    """A module opens with a paragraph; a public class or function says in its first line what you get."""
    assert first_line(module.tree), f"{module.name}: no opening paragraph"
    tops = [node for node in module.tree.body if isinstance(node, ast.ClassDef | FunctionNode)]
    silent = [where(module, node.lineno) for node in tops if is_public(node.name) and not first_line(node)]
    assert silent == []


def test_silenced_checkers_say_why() -> None:
    found = []
    for path in project_files():
        if path.suffix != ".py" or path.resolve() == (ROOT / "tests/shape/test_budgets.py"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = SILENCED.search(line)
            if match and len(match[1].strip("# :-")) < 8:
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == [], "write why beside it"


def test_nothing_is_left_for_later() -> None:
    found = [
        where(module, number)
        for module in MODULES
        for number, line in enumerate(module.text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert found == []


# Words that belong to a machine or a mirror, not to the project. In pieces: this file is looked through too.
PLACES = re.compile(
    r"(?<![\w./-])/(?:wo" r"rk|ro" r"ot)(?:/|\b)"
    r"|\bpyp" r"i\.org|pythonhost" r"ed\.org|npm" r"js\.(?:org|com)|deb" r"ian\.org"
)  # fmt: skip


def test_no_file_speaks_of_a_machine() -> None:
    found = []
    for path in project_files():
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if PLACES.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []
