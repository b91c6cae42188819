"""A page that shows an object as it grows: `python examples/growing_object.py serve`, then open the address it prints.

Without `serve` one request is made here, and its changes are printed.
"""

import asyncio
import sys
from pathlib import Path

import httpx
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Mount, Route

import toolcast
from toolcast import ToolOrchestratingLLM
from toolcast.testing import ScriptedLLM

PAGE = Path(__file__).with_suffix(".html")


class Album(BaseModel):
    """A music album."""

    title: str
    artist: str
    songs: list[str]


ALBUM = {"title": "The wide sea", "artist": "Salt & Foam", "songs": ["Low tide", "The buoy", "Home by dark"]}
MODEL = ScriptedLLM(lambda request: ALBUM)  # any other model can replace the script: "ollama:llama3.2"
make_album = ToolOrchestratingLLM(Album, "An album about {topic}", MODEL)


async def page(request: Request) -> FileResponse:
    """Respond with the page, which calls `/objects` below its own address."""
    return FileResponse(PAGE, media_type="text/html")


objects = toolcast.serve.app(make_album, authorize=toolcast.serve.allow_all, protocols=[])
app = Starlette(routes=[Route("/", page), Mount("/api", objects)])


async def main() -> None:
    """Print the changes of one object."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        response = await client.post("/api/objects", json={"values": {"topic": "the sea"}})
        print(response.text)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        import uvicorn

        uvicorn.run(app, port=8000)
    else:
        asyncio.run(main())
