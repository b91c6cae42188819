"""Sessions of a user who tests a program without a network: recordings of real exchanges."""

from __future__ import annotations

import json
from pathlib import Path

from support.chunks import album_body, album_stream
from support.loopback import Loopback
from user.session import answered, play, spoken

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
