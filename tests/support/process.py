"""The surroundings of a process as a test arranges them; at the end of the test all is as it was.

    def test_x(process: Process) -> None:
        process.without("yaml")  # as where it is not installed
        process.stdin("yes\n")
        with process.as_child():
            ...

`Process.context()` is the same where no fixture can be used, as in a test of Hypothesis.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

import pytest


class Process:
    """Changes of `sys` and `os`; `restore` takes them all back."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    @classmethod
    @contextmanager
    def context(cls) -> Iterator[Process]:
        """Take all changes back at the end of the `with` block."""
        with pytest.MonkeyPatch.context() as patch:
            yield cls(patch)

    def restore(self) -> None:
        """Take all changes back."""
        self._patch.undo()

    def without(self, *modules: str, unload: Sequence[str] = ()) -> None:
        """Let imports of `modules` fail, as where they are not installed; `unload` those that have imported them."""
        for name in unload:
            self._patch.delitem(sys.modules, name, raising=False)
        for name in modules:
            self._module(name, None)

    def module(self, name: str, fake: Any) -> None:
        """Let imports of `name` give `fake`."""
        self._module(name, fake)

    def loaded_on(self, platform: str, module: ModuleType, name: str) -> ModuleType:
        """Return `module` as that platform loads it, under another `name`."""
        spec = spec_from_file_location(name, module.__file__)
        assert spec is not None and spec.loader is not None
        made = module_from_spec(spec)
        self._module(name, made)
        with Process.context() as loading:
            loading.platform(platform)
            spec.loader.exec_module(made)
        return made

    def stdin(self, text: str) -> None:
        """Let the program read `text`."""
        self.stream("stdin", io.StringIO(text))

    def stream(self, name: str, stream: Any) -> None:
        """Set `sys.stdin`, `sys.stdout` or `sys.stderr`; None is a program without a console."""
        self._set(sys, name, stream)

    def argv(self, *words: str) -> None:
        """Set the command line."""
        self._set(sys, "argv", list(words))

    def path(self, folders: Sequence[str]) -> None:
        """Set the folders of imports."""
        self._set(sys, "path", list(folders))

    def platform(self, name: str) -> None:
        """Let `sys.platform` be `name`."""
        self._set(sys, "platform", name)

    @contextmanager
    def as_child(self, pid: int = -1) -> Iterator[None]:
        """Be another process, as a forked child is one."""
        with Process.context() as child:
            child.call("getpid", lambda: pid)
            yield

    def call(self, name: str, function: Callable[..., Any]) -> None:
        """Let the function `name` of `os` be `function`."""
        self._set(os, name, function)

    def lacks(self, *names: str) -> None:
        """Let `os` be without these functions, as on another platform."""
        for name in names:
            self._patch.delattr(os, name, raising=False)

    def _set(self, module: ModuleType, name: str, value: object) -> None:
        self._patch.setattr(module, name, value)

    def _module(self, name: str, module: Any) -> None:
        self._patch.setitem(sys.modules, name, module)


@pytest.fixture
def process() -> Iterator[Process]:
    """The surroundings of this process."""
    with Process.context() as process:
        yield process
