"""The changes of files that a turn makes, compared before each tool runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcast import Engine, Permissions
from toolcast.apps.approval_preview import DiffPreview, preview_call
from toolcast.apps.repl.file_changes import ChangeRecorder
from toolcast.messages import ToolCallPart
from toolcast.testing import ScriptedLLM
from toolcast.toolbox.file_access import file_tools
from toolcast.values.approvals import ApprovalDecision, PermissionRequest
from toolcast.values.hooks import CallInfo

TURN = CallInfo("t1", "turn")
EDIT = '{"path": "a.txt", "old": "cat", "new": "dog"}'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("the cat sat\n")
    return tmp_path


def recorder(root: Path, *decisions: ApprovalDecision) -> ChangeRecorder:
    return ChangeRecorder(lambda request: preview_call(request, str(root)), decisions)


def test_each_change_is_compared_with_the_file_before_it(root: Path) -> None:
    changes = recorder(root)
    calls = [ToolCallPart("c1", "edit_file", EDIT), ToolCallPart("c2", "edit_file", EDIT.replace("cat", "sat"))]
    engine = Engine(
        ScriptedLLM(calls, "Done."), file_tools(root), permissions=Permissions("bypass", root=root), hooks=changes
    )
    engine.submit("go")
    shown = [change.rows[-1].text for change in map(changes.take, ("c1", "c2")) if isinstance(change, DiffPreview)]
    assert shown == ["the dog sat", "the dog dog"]
    assert changes.take("c1") is None


def test_arguments_that_the_person_edited_are_those_that_count(root: Path) -> None:
    request = PermissionRequest("c1", "edit_file", EDIT)
    changes = recorder(root, request.edit(EDIT.replace("dog", "bird")), request.allow())
    changes.tool_start(TURN, ToolCallPart("c1", "edit_file", EDIT))
    change = changes.take("c1")
    assert change is not None and change.rows[-1].text == "the bird sat"


def test_other_calls_and_those_of_sub_agents_change_nothing(root: Path) -> None:
    changes = recorder(root)
    changes.tool_start(TURN, ToolCallPart("c1", "run_command", '{"command": "ls"}'))
    changes.tool_start(CallInfo("t2", "turn", parent="t1/c0"), ToolCallPart("c2", "edit_file", EDIT))
    assert changes.take("c1") is changes.take("c2") is None
