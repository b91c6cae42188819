"""An agent with the tools of an MCP server. Run it: it starts itself a second time, as the server.

Needs `pip install 'toolcast[mcp]'`. The model is scripted, so that no key is needed; any other takes its place.
"""

import sys

from toolcast import Agent, MCPServer, ToolCallPart
from toolcast.testing import ScriptedLLM


def serve() -> None:
    """The server: two tools about a garden."""
    from mcp.server import MCPServer as Server

    garden = Server("garden", log_level="ERROR")
    beds = {"tomatoes": 12, "beans": 30}

    @garden.tool()
    def count(plant: str) -> int:
        """How many plants of a kind there are."""
        return beds[plant]

    @garden.tool()
    def harvest(plant: str, pieces: int) -> str:
        """Take some plants out of their bed."""
        beds[plant] -= pieces
        return f"{pieces} {plant} taken, {beds[plant]} left"

    garden.run()


def main() -> None:
    """The agent: it counts, then harvests, then summarizes."""
    llm = ScriptedLLM(
        ToolCallPart("call_1", "garden_count", '{"plant": "tomatoes"}'),
        ToolCallPart("call_2", "garden_harvest", '{"plant": "tomatoes", "pieces": 6}'),
        "I took 6 of the 12 tomatoes.",
    )
    with MCPServer.stdio(sys.executable, [__file__, "serve"], name="garden") as garden:
        turn = Agent(llm, [*garden.tools()]).run("Harvest half of the tomatoes.")
    for message in turn.history:
        for part in message.parts:
            print(f"{message.role:>9}: {getattr(part, 'content', None) or getattr(part, 'text', None) or part.name}")
    assert turn.text == "I took 6 of the 12 tomatoes."


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
