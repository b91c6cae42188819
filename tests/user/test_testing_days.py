"""Sessions of a user who tests a program without a network: recordings of real exchanges, and the pytest plugin."""

from __future__ import annotations

import json
from pathlib import Path

from support.chunks import album_body, album_stream
from support.loopback import Loopback
from support.pytest_projects import RUNNERS, Project
from user.session import OPENING, address, answered, play, spoken

TEST = """
from toolcast.testing import record
import os

make_album = make_album.with_(llm=OpenAI("m-1", base_url=sys.argv[1], api_key="sk-other-0123", max_retries=1))

def test(topic="the sea"):
    with record(PATH) as recording:
        *_, streamed = make_album.stream(topic=topic)
        print(streamed.title, make_album(topic=topic).title)
    print(recording.sent, "sent,", recording.replayed, "replayed")
"""


def test_a_first_run_records_and_ci_replays(tmp_path: Path) -> None:
    path = tmp_path / "recordings" / "album.jsonl"
    with Loopback() as server:
        server.answer(answered(b'{"error": {"message": "overloaded"}}', 500))
        server.answer(*spoken(*album_stream()))
        server.answer(answered(album_body()))
        first = play(f"PATH = {str(path)!r}\n{TEST}\nos.environ.pop('CI', None)\ntest()", server)
        assert first.went_well() == ["Sea of Glass Sea of Glass", "3 sent, 0 replayed"]
        again = play(f"PATH = {str(path)!r}\n{TEST}\nos.environ['CI'] = 'true'\ntest()", server)
        assert again.went_well() == ["Sea of Glass Sea of Glass", "0 sent, 3 replayed"]
        assert len(server.requests) == 3
        key = server.requests[0].headers["authorization"].removeprefix("Bearer ")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line["response"]["status"] for line in lines if "response" in line] == [500, 200, 200]
    assert key not in path.read_text(encoding="utf-8")


def test_a_changed_program_sees_what_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "album.jsonl"
    with Loopback() as server:
        server.answer(*spoken(*album_stream()))
        server.answer(answered(album_body()))
        play(f"PATH = {str(path)!r}\n{TEST}\nos.environ.pop('CI', None)\ntest()", server).went_well()
        changed = play(f"PATH = {str(path)!r}\n{TEST}\ntest('the moon')", server)
        assert len(server.requests) == 2
    text = changed.err.partition("RecordingMismatch: ")[2]
    assert changed.code == 1
    assert "nothing was sent" in text
    assert "- body.messages[0].content: Create an album about the sea" in text
    assert "+ body.messages[0].content: Create an album about the moon" in text
    assert 'mode="new"' in text


PROGRAM = f"""
{OPENING.replace("sys.argv[1]", "os.environ['SERVICE']").replace("import sys", "import os")}
from toolcast import Agent

def buy(title: str) -> str:
    "Buy an album."
    raise LookupError("the shop has no " + title)

shop = Agent(llm, [buy])
"""

FORGOTTEN = """
from program import make_album

def test_album():
    assert make_album(topic="the sea").title
"""

RECORDED = """
import pytest
from program import make_album

@pytest.mark.toolcast_record
def test_album():
    *_, streamed = make_album.stream(topic="the sea")
    assert streamed.title == "Sea of Glass"
"""

AUTOMATIC = """
import pytest
from program import make_album, shop
from toolcast.errors import TurnFailed
from toolcast.testing import AutoLLM, ScriptedLLM, capture_calls, use_llm

@pytest.mark.parametrize("size", ["minimal", "typical", "maximal"])
async def test_any_album(size):
    with use_llm(AutoLLM(size=size)):
        assert isinstance((await make_album.acall(topic="the sea")).songs, list)

def test_the_failing_tool_is_visible():
    with use_llm(AutoLLM()), capture_calls() as calls, pytest.raises(TurnFailed, match="LookupError: the shop has no"):
        shop.run("Buy something.")
    assert [call.name for call in calls[0].response.message.tool_calls] == ["buy"]

def test_the_prompt(toolcast_llm):
    toolcast_llm.add(lambda request: {"title": request.messages[0].text, "artist": "x", "songs": []})
    assert make_album(topic="the sea").title == "Create an album about the sea"
"""


def test_the_suite_of_a_project(tmp_path: Path) -> None:
    """The user opts in, sees what would be sent, records it, and goes on without any script."""
    project = Project(tmp_path)
    project.write(
        "toolcast_block_requests = true\ntoolcast_tool_errors = raise\n", program=PROGRAM, test_album=FORGOTTEN
    )
    forgotten = project.run(*RUNNERS["anyio"], SERVICE="https://service.invalid/v1")
    assert "RequestBlocked: POST https://service.invalid/v1/chat/completions" in forgotten.stdout
    assert "@pytest.mark.toolcast_record" in forgotten.stdout
    with Loopback() as server:
        server.answer(*spoken(*album_stream()))
        (tmp_path / "test_album.py").write_text(RECORDED, encoding="utf-8")
        project.passes(1, *RUNNERS["anyio"], SERVICE=address(server))
        project.passes(1, *RUNNERS["anyio"], SERVICE=address(server), CI="true")
        assert len(server.requests) == 1
    assert (tmp_path / "recordings" / "test_album" / "test_album.jsonl").is_file()
    project.write(
        "toolcast_block_requests = true\ntoolcast_tool_errors = raise\n", program=PROGRAM, test_auto=AUTOMATIC
    )
    project.passes(6, *RUNNERS["pytest-asyncio"], SERVICE="http://127.0.0.1:9/v1", CI="true")
