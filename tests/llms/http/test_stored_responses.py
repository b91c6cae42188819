"""Stored responses over real HTTP: an engine that sends only what is new, and all that makes it send everything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from support.loopback import whole
from support.responses_service import ResponsesService, function_call, message
from support.service_double import as_json
from support.sync_and_async import API
from toolcast import (
    Anthropic,
    Engine,
    FallbackLLM,
    FunctionCallingLLM,
    OpenAI,
    OpenAIResponses,
    Session,
    Settings,
    ToolCallPart,
    ToolOrchestratingLLM,
    assistant,
    system,
    tool_result,
    user,
)
from toolcast.agents import Compaction
from toolcast.agents.engine.session_state import fold
from toolcast.async_support import sync_driver
from toolcast.errors import BadRequest, NotFound, ServerError
from toolcast.events import Event, Finish, TextDelta
from toolcast.llms.call_state import CallState
from toolcast.llms.client import client_of
from toolcast.llms.http.stored_responses import ContinuedEvents, continuation, is_lost
from toolcast.llms.request import ChatRequest, StoredResponse
from toolcast.stores import SQLiteStore

AUTO = Settings(previous_response_id="auto")
KEY = "sk-0123456789abcdef"


@pytest.fixture
def service() -> Iterator[ResponsesService]:
    with ResponsesService() as double:
        yield double


def gpt(service: ResponsesService, model: str = "gpt-5.4", settings: Settings = AUTO, **options: Any) -> Any:
    return OpenAIResponses(
        model, api_key=KEY, base_url=f"{service.base}/v1", settings=settings, **{"max_retries": 0, **options}
    )


def say(api: API, engine: Engine, text: str) -> str:
    return str(api.method(engine, "submit", text).text)  # type: ignore[arg-type] # the method of any object


def sent(service: ResponsesService) -> list[tuple[str | None, int]]:
    """For each request, the response that it continues and the number of its items."""
    return [(request.json.get("previous_response_id"), len(request.json["input"])) for request in service.created]


def test_only_what_is_new_is_sent(service: ResponsesService, api: API) -> None:
    engine = Engine(gpt(service), instructions="Be brief.")
    assert [say(api, engine, f"Question {number}?") for number in (1, 2, 3)] == ["Answer 1.", "Answer 3.", "Answer 5."]
    assert sent(service) == [(None, 1), ("resp_1", 1), ("resp_2", 1)]
    bodies = [request.json for request in service.created]
    # Instructions are not taken over from the response that is continued.
    assert [(body["store"], body["instructions"]) for body in bodies] == [(True, "Be brief.")] * 3
    assert [each.response_id for each in engine.history if each.role == "assistant"] == ["resp_1", "resp_2", "resp_3"]


def test_an_expired_response_in_the_middle_is_replaced_by_the_history(service: ResponsesService, api: API) -> None:
    engine, plain = Engine(gpt(service)), Engine(gpt(service, settings=Settings()))
    answers = []
    for number in range(5):
        if number == 3:
            service.expire()
        answers.append(say(api, engine, f"Question {number}?"))
    continued, contexts = sent(service), service.contexts
    assert continued == [(None, 1), ("resp_1", 1), ("resp_2", 1), ("resp_3", 1), (None, 7), ("resp_5", 1)]
    service.contexts = []
    assert answers == [say(api, plain, f"Question {number}?") for number in range(5)]
    # The model has seen the same in each turn.
    assert [[*map(_text, items)] for items in contexts] == [[*map(_text, items)] for items in service.contexts]


def _text(item: dict[str, Any]) -> Any:
    content = item["content"]
    return item["role"], content if isinstance(content, str) else content[0]["text"]


def test_the_replacement_has_the_deadline_of_the_call_and_is_sent_once(service: ResponsesService, api: API) -> None:
    engine = Engine(gpt(service))
    say(api, engine, "One?")
    service.expire()
    service.fail("POST /v1/responses", *as_json({"error": {"message": "no"}}, 500))
    with pytest.raises(ServerError):
        say(api, engine, "Two?")
    service.expire()
    gone = {"error": {"message": "Previous response with id 'resp_1' not found.", "param": "previous_response_id"}}
    for _ in range(2):
        service.fail("POST /v1/responses", *as_json(gone, 400))
    with pytest.raises(BadRequest) as failed:
        say(api, engine, "Two?")
    assert len(failed.value.attempts) == 2
    assert say(api, engine, "Two?") == "Answer 3."  # the history is valid, and the next turn sends it


def test_calls_of_tools_send_their_results_alone(service: ResponsesService, api: API) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    service.script.extend([[function_call("add", {"a": 1, "b": 2})], [message("It is 3.")]])
    engine = Engine(gpt(service), [add])
    assert say(api, engine, "1 + 2?") == "It is 3."
    assert sent(service) == [(None, 1), ("resp_1", 1)]
    assert service.created[1].json["input"] == [
        {"type": "function_call_output", "call_id": "call_1", "output": "3"},
    ]
    assert service.created[1].json["tools"] == service.created[0].json["tools"]


def test_an_id_of_a_call_that_the_history_has_already_sends_everything(service: ResponsesService, api: API) -> None:
    # Its result would have an id that the stored response does not have.
    def now() -> str:
        """Tell the time."""
        return "noon"

    service.script.extend([[function_call("now", {})], [message("Noon.")], [function_call("now", {})], [message("!")]])
    engine = Engine(gpt(service), [now])
    say(api, engine, "Time?")
    assert say(api, engine, "And now?") == "!"
    assert sent(service) == [(None, 1), ("resp_1", 1), ("resp_2", 1), ("resp_2", 3)]


def test_a_changed_history_is_sent_whole(service: ResponsesService, api: API) -> None:
    engine = Engine(gpt(service))
    say(api, engine, "One?")
    say(api, engine, "Two?")
    engine.conversation.rewrite([user("Another one?"), *engine.history[1:]])
    say(api, engine, "Three?")
    assert sent(service)[2:] == [(None, 5)]
    # A branch: the conversation as it was after its first turn, with another continuation.
    engine.conversation.rewrite(engine.history[:2])
    say(api, engine, "Two again?")
    assert sent(service)[3:] == [(None, 3)]
    copied = Engine(gpt(service), history=engine.history)
    say(api, copied, "Three again?")
    assert sent(service)[4:] == [(None, 5)]


def test_a_compacted_history_is_sent_whole(service: ResponsesService, api: API) -> None:
    compaction = Compaction(keep=40, at=100)
    engine = Engine(gpt(service), compaction=compaction)
    for number in range(4):
        say(api, engine, f"Question {number}: {'long ' * 20}?")
    ids = [id for id, _ in sent(service)]
    assert ids[1] == "resp_1"
    assert None in ids[2:]


def test_another_model_and_another_provider_get_everything(service: ResponsesService, api: API) -> None:
    chat = {"choices": [{"message": {"content": "Chat."}, "finish_reason": "stop"}], "id": "chatcmpl-1"}
    first = gpt(service)
    engine = Engine(FallbackLLM([first, OpenAI("gpt-4o", api_key=KEY, base_url=f"{service.base}/chat/v1")]))
    say(api, engine, "One?")
    service.fail("POST /v1/responses", *as_json({"error": {"message": "no"}}, 503))
    service.fail("POST /chat/v1/chat/completions", _chat_stream(chat))
    assert say(api, engine, "Two?") == "Chat."
    completions = json.loads(service.requests[-1].body)
    assert [each["role"] for each in completions["messages"]] == ["user", "assistant", "user"]
    assert "previous_response_id" not in completions
    # Back at the first: the response that it stores is continued, with all that has happened since.
    engine.config.llm.preferred = 0
    say(api, engine, "Three?")
    assert sent(service)[1:] == [("resp_1", 3)]
    say(api, Engine(gpt(service, "gpt-5.4-mini"), history=engine.history), "Four?")
    assert sent(service)[2:] == [(None, 7)]


def _chat_stream(whole_response: dict[str, Any]) -> bytes:
    choice = whole_response["choices"][0]
    chunks = [
        {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]},
        {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    data = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in chunks) + b"data: [DONE]\n\n"
    return whole(data, 200, "content-type: text/event-stream")


def test_a_resumed_session_continues_the_response(service: ResponsesService, tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "sessions.db") as store:
        with Session(Engine(gpt(service)), id="s", store=store) as session:
            session.run("One?")
        with Session.resume("s", Engine(gpt(service)), store) as session:
            session.run("Two?")
        # With another model, and with a conversation that was begun by an engine without the setting.
        with Session.resume("s", Engine(gpt(service, "gpt-5.4-mini")), store) as session:
            session.run("Three?")
        assert sent(service) == [(None, 1), ("resp_1", 1), (None, 5)]
        records = store.read("s")
    stored = [record["stored"]["id"] for record in records if "stored" in record]
    assert stored == ["resp_1", "resp_2", "resp_3"]
    ids = [each.response_id for each in fold(records).history if each.role == "assistant"]
    assert ids == ["resp_1", "resp_2", "resp_3"]
    assert KEY not in json.dumps(records)


def test_a_snapshot_has_the_stored_response_while_the_history_has_it(service: ResponsesService, api: API) -> None:
    engine = Engine(gpt(service))
    say(api, engine, "One?")
    restored = Engine(gpt(service))
    restored.restore(engine.snapshot())
    say(api, restored, "Two?")
    assert sent(service)[1:] == [("resp_1", 1)]
    engine.conversation.rewrite([user("Another one?")])
    assert engine.conversation.state().stored is None


def test_a_conversation_of_the_service_gets_each_message_once(service: ResponsesService, api: API) -> None:
    engine = Engine(gpt(service, settings=Settings(conversation="conv_1")))
    for number in range(3):
        say(api, engine, f"Question {number}?")
    assert [len(request.json["input"]) for request in service.created] == [1, 1, 1]
    assert {request.json["conversation"] for request in service.created} == {"conv_1"}
    assert len(service.conversations["conv_1"]) == 6
    engine.conversation.rewrite(engine.history[2:])
    with pytest.raises(BadRequest, match="no longer begins with the messages that the conversation 'conv_1' has"):
        say(api, engine, "And?")


def test_a_fork_has_a_conversation_of_its_own(service: ResponsesService, api: API) -> None:
    engine = Engine(gpt(service, settings=Settings()), settings=Settings(conversation="conv_1", max_tokens=9))
    say(api, engine, "One?")
    say(api, engine.fork(), "Another one?")
    assert ["conversation" in request.json for request in service.created] == [True, False]
    assert [request.json["max_output_tokens"] for request in service.created] == [9, 9]


def test_a_batch_has_no_requests_in_the_background() -> None:
    llm = OpenAIResponses("gpt-5.4", api_key=KEY)
    codec = llm.adapter.batches()  # type: ignore[attr-defined]  # of an HTTP adapter
    request = client_of(llm).preview(ChatRequest((user('say "background":true'),), settings=Settings(background=True)))
    with pytest.raises(BadRequest, match="background=True has no place in a batch"):
        codec.encode("1", request)
    assert codec.encode("1", client_of(llm).preview(ChatRequest((user('say "background":true'),))))


class Album(BaseModel):
    """An album."""

    title: str
    year: int


def test_a_correction_in_a_conversation_sends_only_itself(service: ResponsesService, api: API) -> None:
    wrong = function_call("Album", {"title": "Blue", "year": "?"}, "call_a")
    service.script.extend([[wrong], [function_call("Album", {"title": "Blue", "year": 1971}, "call_b")]])
    llm = gpt(service, settings=Settings(conversation="conv_1"))
    make = ToolOrchestratingLLM(Album, "Invent {what}.", llm, max_attempts=2)
    assert api.call(make, what="one") == Album(title="Blue", year=1971)
    assert [len(request.json["input"]) for request in service.created] == [1, 1]
    assert service.created[1].json["input"][0]["type"] == "function_call_output"


def test_explicit_ids_are_sent_as_they_are(service: ResponsesService, api: API) -> None:
    llm = gpt(service, settings=Settings(store=True))
    first = api.chat(llm, "My name is Ada.")
    settings = Settings(previous_response_id=first.response_id, store=False)
    api.chat(llm, "What is my name?", settings=settings)
    assert [_text(item)[1] for item in service.contexts[-1]] == ["My name is Ada.", "Answer 1.", "What is my name?"]
    assert [request.json["store"] for request in service.created] == [True, False]
    api.chat(llm, "And now?", settings=Settings(previous_response_id=first.response_id))
    assert len({len(request.json) for request in service.created[1:]}) == 1


def test_a_lost_explicit_id_is_an_error(service: ResponsesService, api: API) -> None:
    with pytest.raises(BadRequest, match="Previous response with id 'resp_9' not found"):
        api.chat(gpt(service), "Hi", settings=Settings(previous_response_id="resp_9"))
    assert len(service.created) == 1


def test_twenty_turns_send_a_tenth_of_the_bytes(service: ResponsesService) -> None:
    def run(settings: Settings) -> int:
        service.created = []
        engine = Engine(gpt(service, settings=settings))
        for number in range(20):
            engine.submit(f"Question {number}: {'word ' * 40}?")
        return sum(service.sizes())

    whole_history, new_alone = run(Settings()), run(AUTO)
    assert new_alone * 9 < whole_history


OTHERS: list[tuple[FunctionCallingLLM, Settings]] = [
    (Anthropic("claude-sonnet-4-5", api_key=KEY), Settings(previous_response_id="resp_1")),
    (Anthropic("claude-sonnet-4-5", api_key=KEY), Settings(conversation="conv_1")),
    (Anthropic("claude-sonnet-4-5", api_key=KEY), Settings(background=True)),
    (Anthropic("claude-sonnet-4-5", api_key=KEY), Settings(store=True)),
    (OpenAI("gpt-5.4", api="chat", api_key=KEY), Settings(previous_response_id="resp_1")),
    (OpenAIResponses("grok-4", service="xai", api_key=KEY), Settings(background=True)),
    (OpenAIResponses("grok-4", service="xai", api_key=KEY), Settings(conversation="conv_1")),
    (OpenAIResponses("m", service="groq", api_key=KEY), Settings(previous_response_id="resp_1")),
    (OpenAIResponses("m", service="openrouter", api_key=KEY), Settings(store=True)),
    (OpenAIResponses("gpt-5.4", api_key=KEY), Settings(conversation="conv_1", previous_response_id="resp_1")),
    (OpenAIResponses("gpt-5.4", api_key=KEY), Settings(background=True, store=False)),
    (OpenAIResponses("gpt-5.4", api_key=KEY), Settings(previous_response_id="auto", store=False)),
]


@pytest.mark.parametrize(("llm", "settings"), OTHERS)
def test_what_a_service_does_not_store_is_refused_before_sending(
    llm: FunctionCallingLLM, settings: Settings, api: API
) -> None:
    with pytest.raises(BadRequest, match=r"is not supported by this service|exclude each other|needs a response"):
        api.chat(llm, "Hi", settings=settings)


@pytest.mark.parametrize(
    ("llm", "notes"),
    [
        (Anthropic("claude-sonnet-4-5", api_key=KEY), ["store", "previous_response_id"]),
        (OpenAI("gpt-5.4", api="chat", api_key=KEY), ["previous_response_id"]),
        (OpenAIResponses("m", service="groq", api_key=KEY), ["store", "previous_response_id"]),
    ],
)
def test_without_stored_responses_the_automatic_setting_is_a_note(llm: FunctionCallingLLM, notes: list[str]) -> None:
    settings = Settings(previous_response_id="auto", store=False, background=False)
    request = client_of(llm).preview(ChatRequest((user("Hi"),), settings=settings))
    assert request is not None
    assert [note for note in request.notes if note in ("store", "previous_response_id")] == notes


OWN = StoredResponse("", "openai", "m", "https://a.com/v1/responses")
STORED = replace(OWN, id="resp_1")
LOST = BadRequest("Previous response with id 'resp_1' not found.", status=400)
SEEN = (user("One?"), assistant("1."))


@pytest.mark.parametrize(
    ("messages", "continues", "left"),
    [
        ((*SEEN, user("Two?")), STORED, (user("Two?"),)),
        ((system("Be brief."), *SEEN, user("Two?")), STORED, (system("Be brief."), user("Two?"))),
        ((*SEEN, user("Two?")), None, None),
        ((*SEEN, user("Two?")), replace(STORED, model="n"), None),
        ((*SEEN, user("Two?")), replace(STORED, provider="azure"), None),
        ((*SEEN, user("Two?")), replace(STORED, base_url="https://b.com"), None),
        ((*SEEN, user("Two?")), replace(STORED, conversation="conv_1"), None),
        (SEEN, STORED, None),
        ((user("Another?"), *SEEN[1:], user("Two?")), STORED, None),
        ((*SEEN, system("Now be long."), user("Two?")), STORED, None),  # it would become an instruction of this turn
    ],
)
def test_the_part_that_is_sent(messages: Any, continues: StoredResponse | None, left: Any) -> None:
    found = continuation(ChatRequest(messages, settings=AUTO, continues=continues, seen=SEEN), OWN)
    assert (None if found is None else found.messages) == left
    if found is not None:
        assert found.settings.previous_response_id == "resp_1"


APPROVAL = ToolCallPart("mcpr_1", "mcp.docs.search", "{}", opaque={"responses": {"type": "mcp_approval_request"}})


def test_a_call_that_decides_how_its_result_is_sent_goes_with_it() -> None:
    seen = (user("One?"), assistant(APPROVAL))
    messages = (*seen, tool_result(APPROVAL, "Approved."))
    assert continuation(ChatRequest(messages, settings=AUTO, continues=STORED, seen=seen), OWN) is None
    own, stored = replace(OWN, conversation="conv_1"), replace(STORED, conversation="conv_1")
    with pytest.raises(BadRequest, match="cannot be sent to a conversation of the service"):
        continuation(ChatRequest(messages, settings=AUTO, continues=stored, seen=seen), own)


def test_a_lost_response_is_recognized() -> None:
    assert is_lost(BadRequest("Previous response with id 'resp_1' not found.", status=400))
    assert is_lost(BadRequest("Invalid `previous_response_id`.", status=400))
    assert is_lost(NotFound("no such response", status=404)) is False
    assert is_lost(NotFound("Previous response with id 'resp_1' not found."))  # in a stream
    assert not is_lost(BadRequest("Unknown parameter: 'foo'.", status=400))
    assert not is_lost(ServerError("Previous response not found", status=500))


class Source:
    """The events of one response; with an error, it is raised first."""

    request_id = "req_1"

    def __init__(self, error: Exception | None, *events: Event) -> None:
        self.error, self.events, self.broken, self.closed = error, list(events), False, False

    async def next_events(self) -> list[Event]:
        if self.error is not None:
            raise self.error
        return [self.events.pop(0)] if self.events else []

    def direct_reads(self, id: str) -> None:
        return None

    async def close(self) -> None:
        self.closed = True

    def break_off(self) -> None:
        self.broken = True


def continued(call: CallState, *sources: Source) -> ContinuedEvents:
    request = ChatRequest((*SEEN, user("Two?")), settings=AUTO, continues=STORED, seen=SEEN)
    waiting = iter(sources)
    return ContinuedEvents(request, OWN, lambda _: next(waiting), call)


def test_an_aborted_call_aborts_the_replacement_too() -> None:
    first, second = Source(LOST), Source(None, TextDelta("2."))
    events = continued(CallState(), first, second)
    events.break_off()
    assert sync_driver.run(events.next_events()) == [TextDelta("2.")]
    assert (first.closed, first.broken, second.broken) == (True, True, True)
    assert (events.direct_reads("call_1"), events.request_id) == (None, "req_1")


def test_nothing_is_replaced_after_the_first_event() -> None:
    source = Source(None, TextDelta("2."))
    events = continued(CallState(), source, Source(None))
    sync_driver.run(events.next_events())
    source.error = LOST
    with pytest.raises(BadRequest):
        sync_driver.run(events.next_events())


@pytest.mark.parametrize(
    ("finish", "stored"),
    [
        (Finish("end_turn", response_id="resp_2"), "resp_2"),
        (Finish("tool_use", response_id="resp_2"), "resp_2"),
        (Finish("max_tokens", response_id="resp_2"), None),
        (Finish("end_turn"), None),
    ],
)
def test_only_a_complete_response_is_continued(finish: Finish, stored: str | None) -> None:
    call = CallState()
    sync_driver.run(continued(call, Source(None, finish)).next_events())
    assert (None if call.stored is None else call.stored.id) == stored
