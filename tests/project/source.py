"""The library's source as syntax trees: what the tests of this folder measure."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of the library. `name` is its dotted name below `toolcast` ("" for the package itself)."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing but, at most, a docstring."""
        return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in self.tree.body)

    @cached_property
    def functions(self) -> list[tuple[str, FunctionNode]]:
        """Every function with its qualified name, nested ones too."""
        return [(name, node) for name, node in walk(self.tree) if isinstance(node, FunctionNode)]

    @cached_property
    def classes(self) -> list[tuple[str, ast.ClassDef]]:
        """Every class with its qualified name."""
        return [(name, node) for name, node in walk(self.tree) if isinstance(node, ast.ClassDef)]


def walk(node: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Every node below with the qualified name of the function or class it is, or stands in."""
    for child in ast.iter_child_nodes(node):
        name = inside
        if isinstance(child, FunctionNode | ast.ClassDef):
            name = f"{inside}.{child.name}" if inside else child.name
        yield name, child
        yield from walk(child, name)


def read(path: Path) -> Module:
    """One file, parsed."""
    parts = path.relative_to(SRC / "toolcast").with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text(encoding="utf-8")
    return Module(name, path, text, ast.parse(text, str(path)))


MODULES = [read(path) for path in sorted((SRC / "toolcast").rglob("*.py"))]
NAMES = {module.name for module in MODULES}


def where(module: Module, line: int) -> str:
    """A place as an editor opens it."""
    return f"{module.path.relative_to(ROOT)}:{line}"


def project_files() -> list[Path]:
    """The files of the project: tracked, or about to be."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]
