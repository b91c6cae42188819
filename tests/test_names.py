"""The names of the package: each in the module of the table, loaded when it is first used, and none besides."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import toolcast
from toolcast import experiments, toolbox


@pytest.mark.parametrize(
    ("package", "name"), [(toolcast, "Usage"), (experiments, "agreement"), (toolbox, "question_tool")]
)
def test_a_name_is_loaded_once(package: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(package), name, raising=False)
    first = getattr(package, name)
    assert vars(package)[name] is first
    assert getattr(package, name) is first


@pytest.mark.parametrize("name", ["batch", "chat", "errors", "testing"])
def test_a_package_is_loaded_as_an_attribute(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(toolcast, name, raising=False)
    assert getattr(toolcast, name) is import_module(f"toolcast.{name}")


def test_names_there_are_not() -> None:
    with pytest.raises(AttributeError, match=r"module 'toolcast' has no attribute 'Albums'"):
        _ = toolcast.Albums
    assert not hasattr(toolcast, "_no_such_name")


def test_dir_shows_the_public_names() -> None:
    assert dir(toolcast) == sorted(toolcast.__all__)
    assert "ToolOrchestratingLLM" in dir(toolcast)
    assert "import_module" not in dir(toolcast)


def test_everything_can_be_imported_at_once() -> None:
    names: dict[str, object] = {}
    exec("from toolcast import *", names)
    assert set(toolcast.__all__) <= set(names)
