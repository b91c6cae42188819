"""A notebook without IPython: the fixture `notebook`, which records what is displayed."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Notebook:
    """The outputs of a cell. `displays` has one list of frames for each display handle."""

    def __init__(self) -> None:
        self.displays: list[list[Any]] = []
        self.shell = SimpleNamespace(
            kernel=object(),
            colors="neutral",
            compile=SimpleNamespace(format_code_name=lambda name: ("Cell", "In[3]") if name == "<cell>" else None),
            InteractiveTB=SimpleNamespace(mode="Context", structured_traceback=lambda *error: ["all of", error[0]]),
        )

    def display(self, frame: Any, *, display_id: bool) -> Any:
        assert display_id
        shown = [frame]
        self.displays.append(shown)
        return SimpleNamespace(update=shown.append)

    @property
    def frames(self) -> list[Any]:
        """The frames of the only display."""
        (frames,) = self.displays
        return frames


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    """Return a notebook, in which the test runs."""
    made = Notebook()
    module: Any = ModuleType("IPython")
    module.get_ipython = lambda: made.shell
    module.display = SimpleNamespace(display=made.display)
    monkeypatch.setitem(sys.modules, "IPython", module)
    return made
