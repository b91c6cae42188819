"""A person in charge: one call is allowed, one is changed, one is denied, and one is answered after a restart."""

import json

from toolcast import Agent, ApprovalDecision, PermissionRequest, Permissions, Rule, ToolCallPart
from toolcast.agents import Under
from toolcast.testing import ScriptedLLM

FILES = {"/project/notes.txt": "milk, bread", "/project/old.txt": "1998"}


def fs_read(path: str) -> str:
    """Read a file."""
    return FILES.get(path, "no such file")


def fs_remove(path: str) -> str:
    """Remove a file."""
    return f"{path} held {FILES.pop(path, None)!r}, and is gone"


def person(request: PermissionRequest) -> ApprovalDecision | bool:
    """What a person in front of a screen would answer."""
    print(f"  may {request.tool} run with {request.arguments}? ({request.reason})")
    if "notes" in request.arguments:
        return request.edit({"path": "/project/old.txt"})
    return request.deny("only in /project")


# The model is scripted here, so that this runs anywhere; any other LLM will do.
wishes = [
    ("fs_read", "/project/notes.txt"),
    ("fs_remove", "/project/notes.txt"),
    ("fs_remove", "/etc/hosts"),
    ("fs_read", "/project/../home/.env"),
]
calls = [ToolCallPart(str(i), name, json.dumps({"path": path})) for i, (name, path) in enumerate(wishes)]
permissions = Permissions("default", [Rule("fs_read", "allow", {"path": Under("/project")})], approve=person)
agent = Agent(ScriptedLLM(calls, "I did what I could."), [fs_read, fs_remove], permissions=permissions)
turn = agent.run("Tidy up")
print(turn.text)
for message in turn.history:
    for part in message.parts:
        if part.type == "tool_result":
            print(f"  {part.name}: {part.content!r}")

# Later: the turn ends where an approval is needed, and its conversation is stored like that.
call = ToolCallPart("1", "fs_remove", '{"path": "/project/notes.txt"}')
agent = Agent(ScriptedLLM(call, "They are gone."), [fs_remove], permissions=Permissions(approve="later"))
chat = agent.engine()
turn = chat.submit("Remove my notes")
print(turn.end, [request.tool for request in turn.pending])
stored = json.dumps(chat.snapshot())

# Another process, another day.
chat = agent.engine()
chat.restore(json.loads(stored))
turn = chat.submit(answers=[request.allow() for request in chat.pending])
print(turn.messages[0].parts[0].content, "-", turn.text)
