"""Every Python that the project promises is one that `nox -s matrix` runs the suite on."""

from __future__ import annotations

import ast
import tomllib

import pytest

from project.source import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.gate("G13")
def test_the_matrix_has_every_python_that_is_promised() -> None:
    promised = {name.rpartition(" ")[2] for name in PROJECT["classifiers"] if "Python :: 3." in name}
    matrix = next(
        node
        for node in ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name == "matrix"
    )
    loop = next(node for node in matrix.body if isinstance(node, ast.For))
    assert set(ast.literal_eval(loop.iter)) == promised
    assert PROJECT["requires-python"] == f">={min(promised, key=lambda version: int(version[2:]))}"
