"""A chat as a state machine: a small UI that shows the events, and a person who approves one call and edits one."""

import json

from toolcast import Agent, Permissions, ToolCallPart
from toolcast.chat import ChatChange, ChatMachine
from toolcast.chat.events import StreamChunk, ToolCallSuccess
from toolcast.events import TextDelta
from toolcast.testing import ScriptedLLM


def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny, 21 degrees"


def send_postcard(to: str, text: str) -> str:
    """Send a postcard."""
    return f"a card to {to} is on its way: {text!r}"


def show(change: ChatChange) -> None:
    """All there is to a UI: the pieces of an answer as they come, results, and where the chat is."""
    match change.event:
        case StreamChunk(content=TextDelta(text=text)):
            print(text, end="", flush=True)
        case StreamChunk():
            pass
        case ToolCallSuccess(result=result):
            print(f"  {result.name}: {result.content}")
        case event if change.ignored:
            print(f"[{event.type} is nothing that could happen here]")
        case event if change.path:
            print(f"[{event.type}: {' -> '.join(change.path)}]")


def wishes() -> list[ToolCallPart]:
    """What the model wants to do, both at once."""
    card = json.dumps({"to": "Ada", "text": "It rains."})
    return [ToolCallPart("1", "weather", '{"city": "Oslo"}'), ToolCallPart("2", "send_postcard", card)]


# The model is scripted here, so that this runs anywhere; any other LLM will do.
model = ScriptedLLM(wishes(), "Your card is on its way.\n", "You are welcome.\n")
agent = Agent(model, [weather, send_postcard], permissions=Permissions())

with ChatMachine(agent) as chat:
    chat.subscribe(show)
    chat.dispatch({"type": "QUEUE_MESSAGE", "message": "How is Oslo? Write Ada a card about it."})
    chat.dispatch("LOAD_MODEL")
    chat.run_until("waiting_for_tool_approval")

    # One call is allowed, the other one as well, but with other words.
    chat.dispatch({"type": "APPROVE_TOOL_CALL", "call_id": "1"})
    chat.run_until("waiting_for_tool_approval")
    edited = json.dumps({"to": "Ada", "text": "The sun shines."})
    chat.dispatch({"type": "APPROVE_TOOL_CALL", "call_id": "2", "arguments": edited})
    chat.run_until("ready")
    chat.dispatch("RETRY_GENERATION")  # nothing has failed
    kept = json.dumps(chat.snapshot())

# Later, in another program.
with ChatMachine(agent) as chat:
    chat.restore(json.loads(kept))
    chat.subscribe(show)
    chat.dispatch({"type": "QUEUE_MESSAGE", "message": "Thank you!"})
    chat.run_until("ready")
    print([message.role for message in chat.context.messages])
