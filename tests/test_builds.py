"""The two builds: modules compiled for one platform, and the same modules as Python for all."""

from __future__ import annotations

import importlib
import inspect
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import toolcast
from toolcast.parsing.json_stream import JSONStream

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMPILED: list[str] = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]


@pytest.fixture(params=COMPILED)
def module(request: pytest.FixtureRequest) -> ModuleType:
    """One module that a wheel for one platform has compiled."""
    return importlib.import_module(request.param)


def test_the_name_of_the_build() -> None:
    assert toolcast.__compiled__ is not inspect.isfunction(JSONStream.feed)


def test_modules_are_compiled_in_one_build_and_python_in_the_other(module: ModuleType) -> None:
    assert str(module.__file__).endswith(".py") is not toolcast.__compiled__


def test_the_source_is_beside_a_compiled_module(module: ModuleType) -> None:
    """Tracebacks and `inspect` show it."""
    folder = Path(str(module.__file__)).parent
    assert (folder / f"{module.__name__.rpartition('.')[2]}.py").is_file()


def test_modules_are_listed_in_order() -> None:
    assert sorted(set(COMPILED)) == COMPILED


def test_no_public_class_is_compiled() -> None:
    """A user may subclass a public class, and replace its methods."""
    public = {getattr(toolcast, name) for name in toolcast.__all__}
    classes = {cls for cls in public if inspect.isclass(cls)}
    assert {cls.__module__ for cls in classes} & {*COMPILED} == set()
