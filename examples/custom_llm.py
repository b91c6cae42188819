"""An LLM of your own: `metadata` and one async iterator of events. All else comes with it."""

import json
from collections.abc import AsyncIterator, Sequence

from pydantic import BaseModel

from toolcast import CallableTool, FunctionCallingLLM, Message, Settings, ToolOrchestratingLLM
from toolcast.events import Event, Finish, TextDelta, ToolCallDelta, ToolCallDone, ToolCallStart
from toolcast.llms import LLMMetadata


class EchoLLM(FunctionCallingLLM):
    """An LLM that repeats the prompt; asked for an object, it counts the words."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata("echo-1", provider="echo")

    async def _events(
        self, messages: Sequence[Message], tools: Sequence[CallableTool], tool_choice: object, settings: Settings
    ) -> AsyncIterator[Event]:
        text = messages[-1].text
        if not tools:
            yield TextDelta(text)
        else:
            arguments = json.dumps({"text": text, "words": len(text.split())})
            yield ToolCallStart("call_1", tools[0].name)
            for start in range(0, len(arguments), 8):
                yield ToolCallDelta("call_1", arguments[start : start + 8])
            yield ToolCallDone("call_1", tools[0].name, arguments)
        yield Finish("tool_use" if tools else "end_turn")


class Note(BaseModel):
    """A text and its number of words."""

    text: str
    words: int


print(EchoLLM().chat("Hello").text)
for growing in ToolOrchestratingLLM(Note, "{text}", EchoLLM()).stream(text="The sea is calm tonight"):
    print(repr(growing))
