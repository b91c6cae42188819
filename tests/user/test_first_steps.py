"""Sessions of a beginner: the last line of each error names what is missing, misspelt or misunderstood."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support import warm_python
from support.chunks import album_body, album_stream
from support.loopback import Loopback
from user.session import KEY, answered, environment, play, spoken, type_in


def test_the_first_album() -> None:
    with Loopback() as server:
        server.answer(answered(album_body()))
        screen = play(
            """
            album = make_album(topic="the sea")
            print(type(album).__name__, album.title, len(album.songs), album.songs[0].seconds)
            """,
            server,
        )
        assert screen.went_well() == ["Album Sea of Glass 2 61"]
        assert server.requests[0].line == "POST /v1/chat/completions HTTP/1.1"
        assert b"Create an album about the sea" in server.requests[0].body


def test_the_first_stream_grows_before_the_eyes() -> None:
    with Loopback() as server:
        server.answer(*spoken(*album_stream()))
        screen = play(
            """
            for album in make_album(topic="the sea", stream=True):
                print(repr(album.title), album.artist, len(album.songs or []))
            print("final", album == Album.model_validate(album.model_dump()))
            """,
            server,
        )
        lines = screen.went_well()
        assert len(lines) > 10
        assert lines[0].startswith(("None", "''", "'S"))
        assert lines[-2:] == ["'Sea of Glass' The Tides 2", "final True"]


def test_the_llm_was_forgotten() -> None:
    screen = play("ToolOrchestratingLLM(Album, 'about {topic}')")
    words = screen.failed_with("MissingLLMError")
    assert words == "llm must be provided or set in Configs.llm, for example Configs.llm = LlamaCpp()"


def test_a_wrong_output_type() -> None:
    screen = play("ToolOrchestratingLLM('Album', 'about {topic}', llm)")
    assert "'Album'" in screen.failed_with("OutputTypeError")


def test_a_provider_no_one_knows() -> None:
    screen = play("ToolOrchestratingLLM(Album, 'about {topic}', 'olama:llama3.2')")
    words = screen.failed_with("UnsupportedLLMError")
    assert "'olama:llama3.2'" in words
    assert "ollama" in words


def test_a_misspelt_hole_names_the_right_one() -> None:
    with Loopback() as server:
        screen = play("make_album(topik='the sea')", server)
        words = screen.failed_with("PromptError")
        assert "topik" in words
        assert "topic" in words.replace("topik", "")
        assert server.accepted == 0


def test_a_json_example_in_the_prompt_is_reported_to_double_its_braces() -> None:
    screen = play("""ToolOrchestratingLLM(Album, 'like {"title": "x"}', llm)""")
    assert "double" in screen.failed_with("PromptError")


def test_no_key() -> None:
    with Loopback() as server:
        screen = play(
            """
            free = OpenAI("m-1", base_url=sys.argv[1])
            ToolOrchestratingLLM(Album, "about {topic}", free)(topic="the sea")
            """,
            server,
        )
        words = screen.failed_with("AuthFailed")
        assert "OPENAI_API_KEY" in words
        assert "Nothing was sent" in words
        assert server.accepted == 0


def test_a_wrong_key_and_then_the_right_one_at_the_prompt() -> None:
    with Loopback() as server:
        words = {"message": f"Incorrect API key provided: {KEY}.", "code": "invalid_api_key"}
        server.answer(answered(json.dumps({"error": words}).encode(), 401))
        server.answer(answered(album_body()))
        screen = type_in(
            """
            make_album(topic="the sea")
            make_album = make_album.with_(llm=OpenAI("m-1", base_url=sys.argv[1], api_key="sk-right"))
            make_album(topic="the sea").title
            """,
            server,
        )
        assert screen.lines == ["'Sea of Glass'"]
        assert screen.err.count("toolcast.errors.AuthFailed: openai m-1: ") == 1
        assert "401" in screen.err
        assert [request.headers["authorization"][-5:] for request in server.requests] == ["bcdef", "right"]


def test_looking_at_a_request_sends_nothing() -> None:
    with Loopback() as server:
        screen = play(
            """
            seen = make_album.preview(topic="the sea")
            print(seen.messages[0].text)
            print(sorted(seen.tools["Album"]["properties"]))
            print(seen.body["model"], seen.mode)
            print(seen)
            """,
            server,
        )
        lines = screen.went_well()
        assert lines[:3] == ["Create an album about the sea", "['artist', 'songs', 'title']", "m-1 tool_call"]
        assert server.accepted == 0


def test_a_model_file_that_is_not_there() -> None:
    screen = play(
        """
        from toolcast import LlamaCpp
        ToolOrchestratingLLM(Album, "about {topic}", LlamaCpp("nowhere/model.gguf"))(topic="the sea")
        """
    )
    words = screen.failed_with("NotFound")
    assert "nowhere/model.gguf" in words
    assert "toolcast pull" in words


def test_pulling_from_a_wrong_file(tmp_path: Path) -> None:
    wrong = tmp_path / "holiday.jpg"
    wrong.write_bytes(b"\xff\xd8 not a model")
    command = "import sys; from toolcast.apps.cli import main; sys.exit(main())"
    done = warm_python.run(
        [sys.executable, "-W", "error", "-c", command, "pull", "smollm2", "--from", str(wrong)],
        capture_output=True,
        text=True,
        env=environment(TOOLCAST_CACHE=str(tmp_path / "cache")),
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("toolcast: ")
    assert "holiday.jpg" in done.stderr
    assert not list((tmp_path / "cache").rglob("*.gguf"))


def test_pulling_from_a_file_that_is_not_there(tmp_path: Path) -> None:
    command = "import sys; from toolcast.apps.cli import main; sys.exit(main())"
    done = warm_python.run(
        [sys.executable, "-W", "error", "-c", command, "pull", "smollm2", "--from", str(tmp_path / "no.gguf")],
        capture_output=True,
        text=True,
        env=environment(TOOLCAST_CACHE=str(tmp_path / "cache")),
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "no.gguf" in done.stderr
