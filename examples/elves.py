"""An agent that gives work away: elves in the background, elves that a model starts, and one that is stopped."""

import json
import threading

from toolcast import Agent, Budget, ToolCallPart
from toolcast.agents import ElfConfig, ElfManager
from toolcast.events import TextDelta, ToolProgress
from toolcast.testing import ScriptedLLM

# The models are scripted here, so that this runs anywhere; any other LLM will do.
elves = ElfManager(Agent(ScriptedLLM("Three bugs.", "The first is the worst.")))

print("A program starts an elf, and goes on talking to it:")
elf = elves.spawn(ElfConfig("Find the bugs in ...", task_type="debug"))
print(" ", elf.wait().output)
elf.send("Which one first?")
print(" ", elf.wait().output, f"({elf.wait().duration:.1f} s)")

print("A model starts one, whose events are printed:")
elves = ElfManager(Agent(ScriptedLLM("Rain in Oslo, all week.")))
call = ToolCallPart("1", "agent", json.dumps({"prompt": "The weather in Oslo?", "task_type": "explain"}))
lead = Agent(ScriptedLLM(call, "Take an umbrella."), elves.tools(), budget=Budget(tokens=1000))
chat = lead.engine()
with chat.stream("What do I pack for Oslo?") as stream:
    for event in stream:
        if isinstance(event, ToolProgress) and isinstance(event.data.event, TextDelta):
            print(f"  {event.data.id}: {event.data.event.text!r}")
    print(" ", stream.result().text)
print("  tokens of both:", chat.conversation.spending.usage.total_tokens)

print("A model starts several at once:")
elves = ElfManager(Agent(ScriptedLLM("Done.", "Done.", "Done.")))
tasks = [{"prompt": f"Translate chapter {number}."} for number in (1, 2, 3)]
call = ToolCallPart("1", "spawn_elves", json.dumps({"tasks": tasks}))
lead = Agent(ScriptedLLM(call, "The book is translated."), elves.tools())
print(" ", lead.run("Translate the book.").text, [elf.status for elf in elves.list()])

print("An elf that takes too long has a result as well:")
patience = threading.Event()


def dig() -> str:
    """Dig for gold."""
    patience.wait(60)
    return "gold"


elves = ElfManager(Agent(ScriptedLLM(ToolCallPart("1", "dig", "{}")), [dig]), timeout=0.1)
result = elves.spawn("Find gold.").wait()
print(f"  {result.status}: {result.error}")
patience.set()
