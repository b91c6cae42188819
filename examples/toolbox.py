"""The built-in tools: an agent fixes a program and runs it, with access to one folder only."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from toolcast import Agent, PermissionRequest, Permissions, ToolCallPart
from toolcast.events import ToolProgress
from toolcast.testing import ScriptedLLM
from toolcast.toolbox import FILE_TOOLS, command_tool, file_tools


def person(request: PermissionRequest) -> bool:
    """What a person in front of a screen would answer."""
    print(f"  may {request.tool} run with {request.arguments}?")
    return True


# The model is scripted here, so that this runs anywhere; any other LLM will do.
steps = [
    ("search_files", {"pattern": "echo .*Wrold"}),
    ("read_file", {"path": "hello.sh"}),
    ("edit_file", {"path": "hello.sh", "old": "Wrold", "new": "World"}),
    ("run_command", {"command": "sh hello.sh"}),
    ("read_file", {"path": "../../etc/passwd"}),
    ("read_file", {"path": ".env"}),
]
calls = [ToolCallPart(str(i), name, json.dumps(arguments)) for i, (name, arguments) in enumerate(steps)]
llm = ScriptedLLM(*calls, "The greeting is right now.")

with TemporaryDirectory() as folder:
    Path(folder, "hello.sh").write_text("name=Moon\necho Hello, Wrold\necho Hello, $name\n")
    Path(folder, ".env").write_text("SECRET=1\n")
    # Reading and editing below the folder run unasked, commands are asked about.
    permissions = Permissions("accept_edits", approve=person, file_tools=FILE_TOOLS, root=folder)
    agent = Agent(llm, [*file_tools(folder), command_tool(folder)], permissions=permissions)
    with agent.stream("Fix the greeting") as events:
        for event in events:
            if isinstance(event, ToolProgress):
                print(f"  {event.name}: {event.data!r}")
    turn = events.result()

for message in turn.messages:
    for part in message.parts:
        if part.type == "tool_result":
            print(f"{part.name}:\n    {part.content}".replace("\n", "\n    ").replace("        ", "    "))
print(turn.text)
