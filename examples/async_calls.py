"""Many calls at once: one task each, and one stream, on asyncio (trio works too)."""

import asyncio

from pydantic import BaseModel

from toolcast import ToolOrchestratingLLM
from toolcast.testing import ScriptedLLM


class Title(BaseModel):
    """The title of a song."""

    text: str


# Any LLM will do here; this one gives scripted answers.
llm = ScriptedLLM(Title(text="Foam"), Title(text="Dust"), Title(text="Frost"), Title(text="Harbour Lights"))
name_song = ToolOrchestratingLLM(Title, "A title for a song about {topic}", llm)


async def main() -> None:
    async with asyncio.TaskGroup() as group:
        tasks = {topic: group.create_task(name_song.acall(topic=topic)) for topic in ("the sea", "roads", "winter")}
    for topic, task in tasks.items():
        print(f"{topic}: {task.result().text}")
    async for growing in name_song.astream(topic="a port at night"):
        print(repr(growing))


asyncio.run(main())
