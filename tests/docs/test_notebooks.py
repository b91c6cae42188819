"""The notebooks of examples/notebooks, executed in a kernel of IPython, and their outputs.

To look at them: `jupyter nbconvert --execute --to html examples/notebooks/*.ipynb`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docs.pages import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]
EXPECTED = ["agents", "local_model", "many_inputs", "structured_output"]


class Executed:
    """The cells of an executed notebook."""

    def __init__(self, notebook: Any) -> None:
        self.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]

    def cell(self, source: str) -> Any:
        """Return the outputs of the cell that contains `source`."""
        return next(cell.outputs for cell in self.cells if source in cell.source)

    def html(self, source: str) -> str:
        """Return the HTML of the only output of a cell with HTML."""
        (shown,) = [output.data["text/html"] for output in self.cell(source) if "text/html" in output.get("data", {})]
        return str(shown)

    def text(self, source: str) -> str:
        """Return the text of the result of a cell."""
        (shown,) = [output.data["text/plain"] for output in self.cell(source) if output.output_type == "execute_result"]
        return str(shown)

    def traceback(self, source: str) -> list[str]:
        """Return the lines of the traceback of a cell, without colours."""
        (error,) = [output for output in self.cell(source) if output.output_type == "error"]
        return re.sub(r"\x1b\[\d*m", "", "\n".join(error.traceback)).splitlines()


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory, smollm2: Path) -> dict[str, Executed]:
    """Return each notebook, executed in a kernel of its own, in an empty folder."""
    import nbformat
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("notebooks")
    made: dict[str, Executed] = {}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(folder / name))
        for path in NOTEBOOKS:
            notebook = nbformat.read(path, as_version=4)
            client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}})
            client.execute()
            made[path.stem] = Executed(notebook)
    return made


pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of Jupyter's own packages
]


@pytest.mark.networked
@pytest.mark.parametrize("name", NAMES)
def test_no_output_is_an_address_in_memory_or_a_script(name: str, executed: dict[str, Executed]) -> None:
    for cell in executed[name].cells:
        shown = json.dumps(cell.outputs)
        assert "object at 0x" not in shown
        assert "<script" not in shown
        failed = [output for output in cell.outputs if output.output_type == "error"]
        assert not failed or "raises-exception" in cell.metadata.get("tags", []) or "%tb" in cell.source


@pytest.mark.networked
def test_a_stream_is_one_output_with_the_final_object(executed: dict[str, Executed]) -> None:
    notebook = executed["structured_output"]
    for source in ("make_album.stream(", "make_album.astream("):
        html = notebook.html(source)
        for text in ("Album", "Sea of Glass", "Tide", "342", "&lt;calm&gt;", "complete, 10 tokens in, 5 out"):
            assert text in html
    assert "Take an umbrella." in notebook.html("stream_chat(")
    assert "Result: Album" in notebook.html("make_album.run(")
    assert "songs.0.seconds" in notebook.html("caught = error")
    assert notebook.text("class Album").startswith("ToolOrchestratingLLM(Album, prompt='An album about {topic}'")


@pytest.mark.networked
def test_one_wrong_field_is_a_short_traceback(executed: dict[str, Executed]) -> None:
    lines = executed["structured_output"].traceback("broken = answer")
    assert lines[0] == "ValidationError: Album by scripted scripted is invalid"
    assert "'two minutes'" in lines[1]
    assert [line for line in lines if line.startswith("Cell In[")] == [
        "Cell In[9], line 9",
        "Cell In[9], line 6, in albums",
    ]
    assert lines[-1].endswith("more frames: %tb Plain")
    assert len(lines) <= 12
    assert len(executed["structured_output"].traceback("%tb Plain")) > 40


@pytest.mark.networked
def test_a_turn_and_the_error_of_a_tool(executed: dict[str, Executed]) -> None:
    notebook = executed["agents"]
    assert "Rain in Bergen, 12 degrees." in notebook.html("agent.astream(")
    assert "waiting for approval" in notebook.html("agent.run(")
    lines = notebook.traceback("def divide")
    assert lines[0].startswith("TurnFailed: the tool divide ended the turn")
    assert "Cell In[6], line 3, in divide" in lines
    assert notebook.text("def weather").startswith("Agent(ScriptedLLM('scripted'), tools=[weather, mail]")


@pytest.mark.networked
def test_outcomes_and_scores_are_tables(executed: dict[str, Executed]) -> None:
    notebook = executed["many_inputs"]
    (table, *_) = [output.data["text/html"] for output in notebook.cell("job.run()") if "data" in output]
    assert "6 outcomes, 1 failed" in table
    assert "&lt;b&gt;warm&lt;/b&gt;" in table
    assert "Worst cases" in notebook.html("evaluate(outcomes")
    assert "3 of 6 items asked" in notebook.html("job.estimate")
    assert notebook.text("class Review").endswith("6 inputs)")


@pytest.mark.networked
def test_the_embedded_model_streams(executed: dict[str, Executed]) -> None:
    notebook = executed["local_model"]
    for text in ("<strong>Person</strong>", "age", "complete"):
        assert text in notebook.html("make_person.stream(")
    assert "SmolLM2" in notebook.html("make_person.run(")


@pytest.mark.networked
def test_the_library_does_not_import_ipython(tmp_path: Path) -> None:
    import IPython  # noqa: F401  # it is installed

    program = (
        "import sys, toolcast\nfrom toolcast.testing import ScriptedLLM\n"
        "ScriptedLLM('It rains.').stream_chat('x').show()\n"
        "toolcast.ToolcastError('x')._render_traceback_()\n"
        "print('IPython' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, check=True)
    assert done.stdout == "It rains.\nFalse\n"


def test_the_notebooks_are_those_that_are_tested() -> None:
    assert NAMES == EXPECTED


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_stored_without_outputs(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None
