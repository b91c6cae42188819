"""Calls of remote MCP servers that the provider runs once they are approved.

For the engine they are tool calls: the permissions decide them like any others, their approvals are requested in the
same way, and last as long. To run one is to answer that it is approved; the provider then runs the call that it has
asked about. Every other result of it, such as a denial or the end of the turn, denies it.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from ...json_text import json_text
from ...messages import ToolCallPart
from ...server_tools import APPROVED, is_reviewable, unapproved
from ...tools.callable_tool import CallableTool, ParsedArguments
from ...tools.execution import ToolJob
from ...tools.function_schema import BoundCall
from ..permissions.argument_values import is_plain_object
from ..permissions.call_decisions import denied
from ..permissions.permissions import UNGUARDED, Permissions


class _Arguments:
    """The reader of arguments that are approved as they are."""

    hides_input: bool = False

    def read(self, text: str, context: Any) -> tuple[BoundCall, tuple[str, ...]]:
        """Return the arguments in the JSON object `text`."""
        return BoundCall((), from_json(text)), ()

    def dump(self, value: Any) -> str:
        """Return the JSON text of the arguments."""
        return json_text(value)


def _approve(**arguments: Any) -> str:
    """Return the approval, whatever the arguments: the provider has them."""
    return APPROVED


def approval_job(call: ToolCallPart, permissions: Permissions) -> ToolJob:
    """Return the job that approves `call`, if the permissions let it run.

    Raises:
        BadRequest: The engine has no permissions. By default it runs its own tools, but a call that is to be approved
            needs a decision.
    """
    if permissions is UNGUARDED:
        raise unapproved(call)
    tool = CallableTool(
        call.name,
        "A tool of a remote MCP server, which the provider runs.",
        {"type": "object"},
        _Arguments(),
        _approve,
        destructive=True,  # nothing is known of it
        idempotent=True,  # to approve it again changes nothing
    )
    job = ToolJob(call, tool)
    if not (is_reviewable(call) and is_plain_object(call.arguments)):
        job.error = denied("the arguments are not one JSON object with different keys, so that they cannot be reviewed")
    else:
        job.read = ParsedArguments(*tool.source.read(call.arguments, None))
    return job
