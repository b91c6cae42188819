"""Hundreds of tools, of which a model is offered the few that fit: by their words, or by the choice of a model."""

import asyncio

from toolcast import CallableTool, assistant, user
from toolcast.agents import LexicalSearch, LLMSearch, SearchContext
from toolcast.testing import ScriptedLLM

TOPICS = ["whales", "invoices", "trains", "weather", "recipes", "songs", "servers", "hotels", "shares", "photos"]
VERBS = ["find", "count", "describe", "compare", "delete", "rename", "publish", "archive", "translate", "print"]


def tool(verb: str, topic: str) -> CallableTool:
    """One of a hundred tools."""

    def run(name: str) -> str:
        return f"{verb} {topic}: {name}"

    return CallableTool.from_function(run, f"{verb}_{topic}", f"{verb.capitalize()} {topic} by their name.")


tools = [tool(verb, topic) for verb in VERBS for topic in TOPICS]

# The model is scripted here, so that this runs anywhere; any other LLM will do.
model = ScriptedLLM(
    {"tools": [{"tool_name": "find_trains", "relevance_score": 0.95, "reasoning": "a way to get there"}]}
)


async def main() -> None:
    print(f"{len(tools)} tools")
    by_words = LexicalSearch(limit=2, always=("find_servers",))
    conversation = []
    for text in ("Translate the lyrics of that song", "And now print them", "Erase last week's pohtos"):
        conversation.append(user(text))
        found = await by_words(conversation, tools, SearchContext())
        print(f"  {text}: {[each.name for each in found]}")
        conversation.append(assistant("Done."))
    found = await LLMSearch(model)([user("How do I get to Vienna?")], tools, SearchContext())
    print(f"  How do I get to Vienna? {[each.name for each in found]}")


asyncio.run(main())
