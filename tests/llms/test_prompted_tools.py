"""How a model is held to its tools: by a tool, by a schema, in words; for every LLM, on every API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from support.albums import SEA, SHORT, Album, Song
from support.chunks import delta, sse, text_body
from support.sync_and_async import API
from toolcast import LlamaCpp, Ollama, OpenAI, OpenAICompatible, Settings, ToolOrchestratingLLM, llm
from toolcast.errors import BadRequest, MalformedEvent, NoToolCallError, OutputTruncated, UnsupportedLLMError
from toolcast.events import Finish, RawEvent, TextDelta
from toolcast.llms import Capabilities
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM

JSON = {"content-type": "application/json"}
PROSE = f"Here it is:\n```json\n{SEA.model_dump_json(indent=2)}\n```\nEnjoy!"


class Note(BaseModel):
    """A note."""

    text: str
    about: dict[str, str] = {}


def prompted(*answers: Any, output: Any = Album, **options: Any) -> tuple[ToolOrchestratingLLM[Any], ScriptedLLM]:
    model = ScriptedLLM(*answers, function_calling=False, system_prompt="Be terse.")
    return ToolOrchestratingLLM(output, "About {topic}", model, mode="prompted", **options), model


def test_an_answer_in_words(api: API) -> None:
    make, model = prompted(PROSE)
    result = api.run(make, topic="the sea")
    assert (result.output, result.repairs, result.response.stop_reason) == (SEA, (), "tool_use")
    assert result.response.text == "Here it is:\n```json\n\n```\nEnjoy!"
    asked = model.requests[0]
    assert (asked.tools, asked.tool_choice) == ((), None)
    first, second = asked.messages
    assert first.text.startswith("Be terse.\n\nAlbum: A music album.") and '"artist"' in first.text
    assert second.text == "About the sea"


def test_it_grows_like_any_other(api: API) -> None:
    make, _ = prompted(PROSE)
    seen = api.stream(make, topic="the sea")
    assert seen.final == SEA
    assert len(seen.items) > 10


def test_what_the_model_wrote_is_repaired(api: API) -> None:
    make, _ = prompted("Sure: {'title': 'Sea', 'artist': None, 'songs': [],}")
    make = make.with_(max_attempts=1)

    class Loose(BaseModel):
        title: str
        artist: str | None
        songs: list[Song]

    loose, _ = prompted("Sure: {'title': 'Sea', 'artist': None, 'songs': [],} Bye", output=Loose)
    result = api.run(loose, topic="x")
    assert result.output == Loose(title="Sea", artist=None, songs=[])
    assert len(result.repairs) >= 3
    again, _ = prompted("Sure: {'title': 'Sea', 'artist': None, 'songs': [],} Bye", output=Loose)
    assert api.stream(again, topic="x").final == result.output


def test_a_choice_of_tools_and_several_calls(api: API) -> None:
    song = SEA.songs[0]
    call = json.dumps({"name": "Song", "arguments": song.model_dump()})
    either, _ = prompted(f"I choose {call}.", output=Album | Song)
    assert api.call(either, topic="x") == song
    calls = json.dumps({"calls": [one.model_dump() for one in SEA.songs]})
    several, _ = prompted(f"These: {calls}", output=Song, allow_parallel_tool_calls=True)
    assert api.call(several, topic="x") == SEA.songs


def test_asked_again_in_words(api: API) -> None:
    make, model = prompted("I would rather not.", PROSE, max_attempts=2)
    assert api.call(make, topic="x") == SEA
    assert [message.role for message in model.requests[1].messages] == ["system", "user", "assistant", "user"]
    alone, _ = prompted("I would rather not.")
    with pytest.raises(NoToolCallError, match="I would rather not"):
        api.call(alone, topic="x")


def test_a_cut_answer_is_none(api: API) -> None:
    make, _ = prompted([TextDelta('Sure: {"title": "Sea"'), Finish("max_tokens")])
    with pytest.raises(OutputTruncated):
        api.call(make, topic="x")


def test_a_damaged_answer_is_none(api: API) -> None:
    events = [TextDelta('{"title": "S'), RawEvent('{"ea', damaged=True), TextDelta('"}'), Finish("end_turn")]
    make, _ = prompted(events)
    with pytest.raises(MalformedEvent):
        api.call(make, topic="x")


def test_tools_that_may_not_be_called(api: API) -> None:
    make, model = prompted(SEA.model_dump_json(), tool_choice="none")
    assert api.call(make, topic="x") == SEA
    assert "Album" not in model.requests[0].messages[0].text


# -- which mode


@pytest.mark.parametrize(
    ("name", "usual"),
    [
        ("openai:gpt-5", "tool_call"),
        ("openai:o1-mini", "prompted"),
        ("ollama:qwen3", "json_schema"),
        ("perplexity:sonar", "json_schema"),
        ("moonshot:kimi-k2.5", "tool_call"),
        ("anthropic:claude-mythos-5", "json_schema"),
        ("local", "grammar"),
    ],
)
def test_the_usual_mode_of_a_model(name: str, usual: str) -> None:
    make = ToolOrchestratingLLM(Album, "x", llm(name))
    assert make.preview().mode == usual
    assert make.with_(mode="prompted").preview().mode == "prompted"


def test_what_the_user_knows_of_a_model_counts() -> None:
    known = OpenAICompatible("m", base_url="http://h/v1", capabilities=Capabilities(tools=False, json_schema=True))
    make = ToolOrchestratingLLM(Album, "x", known)
    assert make.preview().mode == "json_schema"
    assert make.preview().body["response_format"]["json_schema"]["name"] == "Album"


def test_a_mode_that_an_llm_has_not() -> None:
    with pytest.raises(UnsupportedLLMError, match="no mode 'json_schema'"):
        ToolOrchestratingLLM(Album, "x", ScriptedLLM(), mode="json_schema")
    make = ToolOrchestratingLLM(Album, "x", ScriptedLLM())
    with pytest.raises(UnsupportedLLMError, match="'tool_call', 'prompted'"):
        make.with_(mode="grammar")
    with pytest.raises(UnsupportedLLMError, match="'grammar', 'prompted'"):
        ToolOrchestratingLLM(Album, "x", LlamaCpp(), mode="tool_call")


def test_a_model_without_tools_is_asked_in_words_or_not_at_all() -> None:
    mute = ScriptedLLM(function_calling=False)
    with pytest.raises(UnsupportedLLMError, match="mode='prompted'"):
        ToolOrchestratingLLM(Album, "x", mute)
    assert ToolOrchestratingLLM(Album, "x", mute, mode="prompted").preview().mode == "prompted"


# -- through a service


def text_stream(text: str) -> Recorded:
    return Recorded(sse(*(delta(content=text[at : at + 5]) for at in range(0, len(text), 5)), delta("stop")))


@pytest.mark.parametrize("mode", ["json_schema", "prompted"])
def test_the_text_of_a_service(api: API, mode: Any) -> None:
    text = SEA.model_dump_json()
    network = ReplayNetwork(Recorded([text_body(text)], headers=JSON), text_stream(text))
    make = ToolOrchestratingLLM(Album, "x", OpenAI("gpt-4o", api="chat", api_key="k", network=network), mode=mode)
    assert api.call(make) == SEA
    assert api.stream(make).final == SEA
    assert make.parse(text_body(text)) == SEA
    for sent in network.requests:
        body = json.loads(sent.body)
        assert "tools" not in body and "tool_choice" not in body
        assert ("response_format" in body) == (mode == "json_schema")


def test_a_schema_that_openai_can_hold_strictly() -> None:
    preview = ToolOrchestratingLLM(Album, "x", OpenAI("gpt-4o", api="chat", api_key="k"), mode="json_schema").preview()
    held = preview.body["response_format"]["json_schema"]
    assert held["strict"] is True and held["name"] == "Album"
    assert held["schema"]["additionalProperties"] is False
    (tool,) = ToolOrchestratingLLM(Album, "x", OpenAI("gpt-4o", api="chat", api_key="k")).preview().body["tools"]
    assert tool["function"]["strict"] is True and tool["function"]["parameters"] == held["schema"]


@pytest.mark.parametrize("mode", ["json_schema", "tool_call"])
def test_a_schema_that_cannot_be_strict_is_sent_loose_and_sent(mode: Any) -> None:
    preview = ToolOrchestratingLLM(Note, "x", OpenAI("gpt-4o", api="chat", api_key="k"), mode=mode).preview()
    assert "strict" not in json.dumps(preview.body)
    (note,) = preview.notes
    assert note.startswith("a strict schema of Note (") and "about" in note


def test_a_service_that_knows_json_but_no_schemas() -> None:
    make = ToolOrchestratingLLM(Album, "x", llm("deepseek:deepseek-chat", api_key="k"), mode="json_schema")
    body = make.preview().body
    assert body["response_format"] == {"type": "json_object"}
    assert '"artist"' in body["messages"][0]["content"] and "JSON" in body["messages"][0]["content"]


def test_several_tools_in_one_schema(api: API) -> None:
    song = SEA.songs[0].model_dump()
    text = json.dumps({"calls": [{"name": "Song", "arguments": song}]})
    network = ReplayNetwork(Recorded([text_body(text)], headers=JSON))
    make = ToolOrchestratingLLM(
        Album | Song, "x", OpenAI("gpt-4o", api="chat", api_key="k", network=network), mode="json_schema"
    )
    assert api.call(make) == SEA.songs[0]
    held = json.loads(network.requests[0].body)["response_format"]["json_schema"]
    assert held["name"] == "Album_Song" and held["schema"]["type"] == "object"


def test_ollama_with_tools_of_its_own_cannot_force_one() -> None:
    preview = ToolOrchestratingLLM(Album, "x", Ollama("m"), mode="tool_call").preview()
    assert "tools" in preview.body and "format" not in preview.body
    assert preview.notes == ("tool_choice",)


def test_a_model_that_cannot_be_asked_for_a_tool_that_is_none() -> None:
    with pytest.raises(BadRequest, match="takes no tools"):
        ToolOrchestratingLLM(Album, "x", llm("perplexity:sonar", api_key="k"), mode="tool_call").preview()


def test_settings_go_with_every_mode() -> None:
    make = ToolOrchestratingLLM(
        SHORT.__class__, "x", OpenAI("gpt-4o", api="chat", api_key="k"), settings=Settings(temperature=0)
    )
    for mode in ("tool_call", "json_schema", "prompted"):
        assert make.with_(mode=mode).preview().body["temperature"] == 0
