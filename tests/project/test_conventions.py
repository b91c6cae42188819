"""Tests of conventions that no linter checks: names, broad excepts, docstrings, reasons of silenced checkers."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

from project.source import MODULES, ROOT, FunctionNode, Module, project_files, walk, where

FORBIDDEN_WORDS = {"Manager", "Handler", "Helper", "Helpers", "Processor", "Util", "Utils"}
ALLOWED_NAMES = {"StreamingObjectProcessor", "ElfManager"}  # the public contract names them

COMPILED: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"][
    "targets"
]["wheel"]["hooks"]["custom"]["modules"]

# A silenced checker needs a reason, after the rule it silences.
SILENCED = re.compile(
    r"#\s*(?:type: ignore|pyright: ignore|noqa|pragma: no (?:cover|branch))"
    r"(?:\[[^]]*\]|: [A-Z0-9, ]+)?(.*)"
)
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")


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


def test_a_broad_except_has_a_reason() -> None:
    """Require a comment beside each clause that catches every exception and does not raise it again."""
    found = [
        where(module, node.lineno)  # type: ignore[attr-defined]  # a clause or a call has a line
        for module in MODULES
        for _, node in walk(module.tree)
        if catches_everything(node) and not only_cleans_up(node) and "  # " not in line_of(module, node)
    ]
    assert found == [], "write beside it which foreign code is called there"


def line_of(module: Module, node: ast.AST) -> str:
    """Return the line on which a clause or a call begins."""
    return module.text.splitlines()[node.lineno - 1]  # type: ignore[attr-defined]  # a clause or a call has a line


def first_line(node: ast.Module | ast.ClassDef | FunctionNode) -> str:
    return (ast.get_docstring(node) or "").split("\n")[0].strip()


def is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


@pytest.mark.parametrize("module", [m for m in MODULES if not m.is_empty], ids=lambda m: m.name or "toolcast")
def test_docstrings(module: Module) -> None:
    """Require a docstring of each module, and of each public class and function."""
    assert first_line(module.tree), f"{module.name}: no opening paragraph"
    tops = [node for node in module.tree.body if isinstance(node, ast.ClassDef | FunctionNode)]
    tops = [node for node in tops if is_public(node.name) and "overload" not in map(ast.unparse, node.decorator_list)]
    silent = [where(module, node.lineno) for node in tops if not first_line(node)]
    assert silent == []


def dataclasses_of(module: Module) -> set[str]:
    """Return the names of the modules from which a module takes its `dataclass`."""
    found: set[str] = set()
    for _, node in walk(module.tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "dataclass" for alias in node.names):
            found.add((node.module or "").rpartition(".")[2])
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "dataclasses.dataclass":
            found.add("dataclasses")
    return found


def test_dataclasses_are_lazy_except_in_compiled_modules() -> None:
    """An `__init__` that is made on first use makes imports cheap, but does not reach a class that mypyc compiled."""
    found: dict[str, set[str]] = {module.name: dataclasses_of(module) for module in MODULES}
    assert found.pop("lazy.lazy_dataclasses") == {"dataclasses"}
    assert "lazy_dataclasses" in found["values.settings"]
    wrong = {
        name: taken
        for name, taken in found.items()
        if taken - {"dataclasses" if f"toolcast.{name}" in COMPILED else "lazy_dataclasses"}
    }
    assert wrong == {}


def test_no_compiled_module_raises_from() -> None:
    """Mypyc ignores the `from` of a `raise`: the error would have no cause, and show the error before it."""
    found = [
        where(module, node.lineno)
        for module in MODULES
        for _, node in walk(module.tree)
        if isinstance(node, ast.Raise) and node.cause is not None and f"toolcast.{module.name}" in COMPILED
    ]
    assert found == []


def test_silenced_checkers_say_why() -> None:
    found = []
    for path in project_files():
        if path.suffix != ".py" or path.resolve() == (ROOT / "tests/project/test_conventions.py"):
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


POSSESSIVE_GROUP = re.compile(r"(?<![(\\])\)(?:[*+?]|\{+[\d,]+\}+)\+")


def test_no_group_is_possessive() -> None:
    """Require `(?>(...)*)` for `(...)*+`, which Python before 3.11.5 may end within a repetition (gh-106052)."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "src").rglob("*"))
        if path.suffix in (".py", ".toml")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if POSSESSIVE_GROUP.search(line)
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
